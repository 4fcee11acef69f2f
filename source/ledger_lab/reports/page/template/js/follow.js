// A page that lives: it tells its age, and takes what is new without losing the reader's place.

const FOLLOWED = document.documentElement.dataset.follow; // "file", "served", or undefined for a page that is done
const LATE_S = 15; // time that a writing may take, before the page is called stale
const PATIENCE_MS = 120_000; // a server of a large ledger reads for a while
const SECTIONS = "main > section";
const loadedAt = Date.now();
let aheadS = 0; // how far this computer's clock is ahead of the server's
let unanswered = null; // why the server gave no answer
let polling = false;
let partsFrom = 0; // when the tables and figures may be taken again

function follow() {
  if (FOLLOWED === undefined) return;
  tellAge();
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
}

/** What the live part says about its own writing, and how old it is [s]. */
function writing() {
  const { written, every, due, ended } = byId("live").dataset;
  const age = Math.max(0, Date.now() / 1000 - aheadS - Number(written));
  const over = ended !== undefined;
  return { age, every: Number(every), due: Number(due), over, stale: over || age > Number(due) + LATE_S };
}

let polledAt = 0;

function tick() {
  tellAge();
  if (document.hidden || polling) return;
  const { age, every, due, over, stale } = writing();
  if (FOLLOWED === "served") {
    if (Date.now() - polledAt >= 1000 * Math.min(every, 5)) poll();
  } else if (!over && !reading()) {
    const waited = (Date.now() - loadedAt) / 1000;
    if (age > every && waited >= (stale ? due : every)) reload();
  }
}

/** Says a span of time in one unit. */
function span(seconds) {
  const units = [
    [90, 1, "s"],
    [5400, 60, "min"],
    [172_800, 3600, "h"],
    [Infinity, 86_400, "days"],
  ];
  const [, size, unit] = units.find(([limit]) => seconds < limit);
  return `${Math.round(seconds / size)} ${unit}`;
}

function tellAge() {
  const { age, due, over, stale } = writing();
  const ago = `${span(age)} ago`;
  const node = byId("age");
  node.classList.toggle("warn", stale || unanswered !== null);
  node.textContent = unanswered
    ? `${unanswered} This is from ${ago}.`
    : over
      ? `The program that writes this page has ended: nothing new follows. This is from ${ago}.`
      : stale && FOLLOWED === "served"
        ? `Written ${ago}: the server reads what is new …`
        : stale
        ? `STALE: written ${ago}, and due every ${span(due)}. The program that writes this page has probably ended.`
        : `Written ${ago}.`;
}

/** Whether the reader is in the middle of something that a reload would interrupt. */
function reading() {
  const active = document.activeElement;
  const selected = getSelection();
  return active?.matches("select, input[type=search]") || (selected !== null && !selected.isCollapsed);
}

// A page in a file: it is loaded again, and what the reader has set is handed on in the history's state.

function reload() {
  const place = {
    anchor: anchor(),
    chosen,
    orders: [...orders],
    unfolded: [...unfolded],
    sides: [...sideAsked],
    theme: theme(),
    values: [...document.querySelectorAll("main select[id]")].map((select) => [select.id, select.value]),
    unit: phaseUnit(),
    keys: openKeys(),
    places: places.map((each) => [each.node.id, each.node.clientHeight, each.opened ?? openedIn(each.node)]),
  };
  history.replaceState({ place }, "");
  location.reload();
}

/** Sets what the reader had set before the page was loaded again, and returns where the reader was. */
function recall() {
  const place = history.state?.place;
  if (FOLLOWED !== "file" || !place) return null;
  history.replaceState(null, "");
  history.scrollRestoration = "manual";
  Object.assign(chosen, place.chosen);
  fillFilterChoices();
  byId("filters").elements.text.value = chosen.text;
  for (const [key, order] of place.orders) orders.set(key, order);
  for (const key of place.unfolded) unfolded.add(key);
  for (const [id, key] of place.sides) sideAsked.set(id, key);
  setTheme(place.theme);
  for (const [id, value] of place.values) {
    if (![...byId(id).options].some((option) => option.value === value)) byId(id).append(element("option", { value }));
    byId(id).value = value;
  }
  document.querySelector(`input[name=phase-unit][value="${place.unit === "seconds" ? "seconds" : "share"}"]`).checked = true;
  openByKeys(place.keys);
  for (const [id, height, opened] of place.places) {
    const own = places.find((each) => each.node.id === id);
    if (own === undefined) continue;
    own.opened = opened;
    own.node.style.minHeight = `${height}px`;
  }
  return place.anchor;
}

/** Where the reader is: the topmost section in the window, and how far its beginning is from the window's top. */
function anchor() {
  const all = [...document.querySelectorAll(SECTIONS)];
  const first = all.find((section) => section.getBoundingClientRect().bottom > 120);
  if (first === undefined || scrollY === 0) return null;
  return { id: first.id, top: first.getBoundingClientRect().top };
}

function goTo(place) {
  if (place !== null && byId(place.id)) scrollBy(0, byId(place.id).getBoundingClientRect().top - place.top);
}

const openKeys = () => [...document.querySelectorAll("details[data-key][open]")].map((details) => details.dataset.key);

function openByKeys(keys) {
  for (const details of document.querySelectorAll("details[data-key]")) {
    if (!keys.includes(details.dataset.key)) continue;
    details.open = true;
    const text = details.querySelector("pre");
    text.scrollTop = text.scrollHeight;
  }
}

// A served page: what is new is asked for, and put in its place.

async function poll() {
  polling = true;
  try {
    const answer = await ask("live");
    const { version, now, html } = await answer.json();
    aheadS = Date.now() / 1000 - now;
    if (!selectsIn(byId("live"))) takeLive(html);
    const changed = String(version) !== document.documentElement.dataset.version;
    if (changed && !reading() && Date.now() >= partsFrom) {
      const began = Date.now();
      await takeParts();
      partsFrom = Date.now() + 5 * (Date.now() - began); // a large page over a slow line is not taken all the time
    }
    unanswered = null;
  } catch (error) {
    unanswered =
      error instanceof Refusal
        ? "The server wants its token: open the address that it printed."
        : "No answer: the server has ended, or the connection to it is lost.";
  } finally {
    polling = false;
    polledAt = Date.now();
    tellAge();
  }
}

class Refusal extends Error {}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (answer.status === 401) throw new Refusal();
  if (!answer.ok) throw new Error(String(answer.status));
  return answer;
}

const selectsIn = (node) => {
  const selected = getSelection();
  return selected !== null && !selected.isCollapsed && node.contains(selected.anchorNode);
};

/** Takes the live part, and keeps open what is open, and the focus and the scroll positions where they are. */
function takeLive(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("live");
  const old = byId("live");
  const [keys, place] = [openKeys(), anchor()];
  const focused = document.activeElement?.closest("#live details[data-key]")?.dataset.key;
  const scrolled = [...old.querySelectorAll("details[open][data-key] pre")]
    .filter((pre) => pre.scrollTop + pre.clientHeight < pre.scrollHeight - 4)
    .map((pre) => [pre.closest("details").dataset.key, pre.scrollTop]);
  old.replaceWith(fresh);
  openByKeys(keys);
  for (const details of fresh.querySelectorAll("details[data-key]")) {
    const at = scrolled.find(([key]) => key === details.dataset.key);
    if (at) details.querySelector("pre").scrollTop = at[1];
    if (details.dataset.key === focused) details.querySelector("summary").focus({ preventScroll: true });
  }
  goTo(place);
}

/** Takes the tables and the model, and draws what can be seen again. */
async function takeParts() {
  const fresh = new DOMParser().parseFromString(await (await ask("parts")).text(), "text/html");
  const place = anchor();
  for (const id of ["made", "cost-tables", "cohort-rows", "scaling"]) {
    byId(id).hidden = fresh.getElementById(id).hidden;
    byId(id).replaceChildren(...fresh.getElementById(id).childNodes);
  }
  takeModel(JSON.parse(fresh.getElementById("ledger").textContent));
  document.documentElement.dataset.version = fresh.documentElement.dataset.version;
  fillFilterChoices();
  refreshing = true;
  applyFilters();
  refreshing = false;
  goTo(place);
}
