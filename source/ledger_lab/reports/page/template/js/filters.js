// The filters: which runs count, in the tables and in the figures.

const FIELDS = ["task", "rl_library", "status", "cohort"];
const chosen = { task: null, rl_library: null, status: null, cohort: null, text: "" };
let shown = runs;
const listeners = [];

const offered = new Map();

/** Fills the choices with what the runs have. What was chosen stays chosen, even if no run has it any more. */
function fillFilterChoices() {
  for (const field of FIELDS) {
    const found = new Set([...runs.map((run) => run[field]), chosen[field]]);
    const values = [...found].filter((value) => value !== null).sort();
    const words = values.map((value) => (field === "status" ? statusWords(value) : value));
    const options = words.map((text, place) => element("option", { value: String(place) }, text));
    const select = byId("filters").elements[field];
    select.replaceChildren(element("option", { value: "" }, "all"), ...options);
    select.value = chosen[field] === null ? "" : String(values.indexOf(chosen[field]));
    offered.set(field, values);
  }
}

function fillFilters() {
  fillFilterChoices();
  for (const field of FIELDS) {
    const select = byId("filters").elements[field];
    select.addEventListener("change", () => {
      chosen[field] = select.value === "" ? null : offered.get(field)[Number(select.value)];
      applyFilters();
    });
  }
  const text = byId("filters").elements.text;
  let pending = 0;
  text.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      chosen.text = text.value.trim().toLowerCase();
      applyFilters();
    }, 120);
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => {
    Object.assign(chosen, { task: null, rl_library: null, status: null, cohort: null, text: "" });
    setTimeout(applyFilters, 0);
  });
}

function applyFilters() {
  const words = chosen.text.split(/\s+/).filter(Boolean);
  shown = runs.filter(
    (run) =>
      FIELDS.every((field) => chosen[field] === null || run[field] === chosen[field]) &&
      words.every((word) => run.words.includes(word)),
  );
  byId("count").replaceChildren(
    shown.length === runs.length ? counted(runs.length, "run") : `${shown.length} of ${counted(runs.length, "run")}`,
    element("span", { class: "paper" }, ...filtersInWords()),
  );
  for (const listener of listeners) listener();
  redraw();
}

/** Says by what runs were picked: on paper, the filters themselves can't be seen. */
function filtersInWords() {
  const asked = FIELDS.filter((field) => chosen[field] !== null).map((field) => [
    byId("filters").elements[field].labels[0].querySelector("span").textContent.toLowerCase(),
    field === "status" ? statusWords(chosen[field]) : chosen[field],
  ]);
  if (chosen.text) asked.push(["text", chosen.text]);
  return asked.flatMap(([title, value], place) => [`${place ? " · " : ": "}${title} `, nameOf(value)]);
}

// The cost table: hides what the filters hide, sorts, and shows long ledgers in parts.

const PART = narrow() ? 8 : 30;
const unfolded = new Set(); // tables that are shown as a whole, by their yardsticks
const orders = new Map(); // by what the table of a yardstick is sorted

function showTables() {
  const visible = new Set(shown.map((run) => run.index));
  for (const section of document.querySelectorAll("section.yardstick")) {
    const body = section.querySelector("tbody");
    const rows = [...body.rows];
    rows.sort(rowOrder(section));
    const most = printing || unfolded.has(section.dataset.yardstick) ? Infinity : PART;
    let count = 0;
    for (const row of rows) {
      const matches = visible.has(Number(row.dataset.run));
      row.hidden = !matches || count >= most;
      if (matches) count += 1;
      body.append(row);
    }
    section.hidden = count === 0;
    const more = section.querySelector(".more");
    more.hidden = count <= most;
    more.replaceChildren();
    if (count > most) {
      const button = element("button", { type: "button" }, `Show all ${count} runs`);
      button.addEventListener("click", () => {
        unfolded.add(section.dataset.yardstick);
        showTables();
      });
      more.append(`The first ${most} of ${count} runs. `, button);
    }
  }
  const cohorts = new Set(shown.map((run) => JSON.stringify([run.cohort, run.task, run.panel_id, run.target_success])));
  for (const row of document.querySelectorAll("tr[data-cohort]")) {
    const cohort = model.cohorts[Number(row.dataset.cohort)];
    row.hidden = !cohorts.has(JSON.stringify([cohort.cohort, cohort.task, cohort.panel_id, cohort.target_success]));
  }
}

/** Sorts a table when one of its headings is pressed; the listener outlives the tables. */
function sortable() {
  byId("cost-tables").addEventListener("click", (event) => {
    const button = event.target.closest("th button[data-sort]");
    if (button === null) return;
    const { yardstick } = button.closest("section").dataset;
    const before = orders.get(yardstick);
    orders.set(yardstick, { key: button.dataset.sort, up: before?.key !== button.dataset.sort || !before.up });
    showTables();
  });
}

/** Compares two rows of a table by what it is sorted by, and marks the heading. */
function rowOrder(section) {
  const order = orders.get(section.dataset.yardstick);
  for (const button of section.querySelectorAll("th button[data-sort]")) {
    const sorts = button.dataset.sort === order?.key;
    button.closest("th").setAttribute("aria-sort", sorts ? (order.up ? "ascending" : "descending") : "none");
  }
  if (order === undefined) return (a, b) => Number(a.dataset.run) - Number(b.dataset.run);
  return (a, b) => {
    const [left, right] = [a, b].map((row) => sortValue(runs[Number(row.dataset.run)], order.key));
    if (left === null || right === null) return (left === null) - (right === null);
    const sign = left < right ? -1 : left > right ? 1 : 0;
    return order.up ? sign : -sign;
  };
}

/** What a column sorts by; a run that never got there took longer than any that did. */
function sortValue(run, key) {
  if (key === "wall_to_target_s") return run.wall_to_target_s ?? 1e12 + run.wall_s;
  if (key === "num_envs") return run.envs;
  if (key === "peak_gpu_memory_gb") return run.peak_gpu_memory_gb ?? run.peak_host_memory_gb;
  return run[key];
}

function showTiles() {
  const reached = shown.filter((run) => run.target_reached).length;
  const failed = shown.filter((run) => !["completed", "target_reached", "limit_reached", "running"].includes(run.status)).length;
  const priced = shown.filter((run) => run.billable_usd !== null);
  const spent = priced.reduce((sum, run) => sum + run.billable_usd, 0);
  const wall = shown.reduce((sum, run) => sum + run.wall_s, 0);
  const unpriced = shown.length - priced.length;
  const yardsticks = new Set(shown.map((run) => run.yardstick)).size;
  // What a policy costs is no property of the runs that got there: whoever picks runs by their outcome gets no quotient.
  const whole = chosen.status === null && chosen.text === "" && !model.left_out_runs;
  const each = whole && reached && priced.length && !unpriced && yardsticks === 1 ? usd(spent / reached) : MISSING;
  const why = !shown.length
    ? "no run"
    : !whole
      ? `runs that fell short count, too: ${model.left_out_runs ? "write the page of the whole ledger" : "clear status and text"}`
      : yardsticks > 1
        ? "tasks, panels or targets differ: filter one"
        : unpriced
          ? `${counted(unpriced, "run")} unpriced`
          : !reached
            ? `undefined, ≥ ${usd(spent)} spent`
            : `${usd(spent)} ÷ ${counted(reached, "run")}`;
  const several = [
    ["reached the target", `${reached} of ${shown.length}`, `${failed} failed`],
    ["wall-clock", duration(wall), `all attempts, ${wall >= 3600 ? "h:min:s" : "min:s"}`],
    [
      "spent",
      priced.length ? usd(spent) : MISSING,
      unpriced ? `and ${counted(unpriced, "run")} unpriced` : "all attempts, failed runs too",
    ],
    ["per target-reaching checkpoint", each, why],
  ];
  const tiles = shown.length === 1 ? answer(shown[0]) : several;
  byId("tiles").replaceChildren(
    ...tiles.map(([title, value, note]) =>
      element("div", {}, element("dt", {}, title), element("dd", {}, value, element("small", {}, note))),
    ),
  );
}

/** The answer of one run: is its target reached, with which success, in which time and at which cost. */
function answer(run) {
  const time = run.wall_to_target_s ?? run.wall_s;
  const words = run.target_reached ? "target reached" : statusWords(run.status);
  const unknown = run.usd_per_hour === null ? "unpriced" : "energy unknown";
  const [low, high] = (run.heldout_interval ?? []).map((end) => (100 * end).toFixed(1));
  return [
    [run.task, `${run.target_reached ? "✓" : run.status === "running" ? "…" : "✗"} ${words}`, run.reason ?? ""],
    [
      run.target_reached ? "success of fresh episodes" : "success of checked episodes",
      percent(run.heldout_success),
      low === undefined ? "no score" : `95 %: ${low} to ${high} · ${run.heldout_successes} of ${run.heldout_episodes}`,
    ],
    [
      run.target_reached ? "time to target" : "time without reaching it",
      duration(time),
      `${time >= 3600 ? "h:min:s" : "min:s"}, start-up included`,
    ],
    ["cost", usd(run.billable_usd), run.billable_usd === null ? unknown : "of the whole run"],
  ];
}
