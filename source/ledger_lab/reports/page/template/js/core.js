// What all parts share: the model, elements without markup, and figures as people read them.

let model, runs;
const MISSING = "–";
const byId = (id) => document.getElementById(id);

/** Makes an element. Children are elements or texts; a text never becomes markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "colour") made.style.color = value;
    else if (name === "fill") made.style.backgroundColor = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Makes an element for a name from the ledger, which keeps its writing direction to itself. */
const nameOf = (text) => element("bdi", {}, String(text));

/** Writes a text for Plotly, which takes some markup and entities in its labels for what they are. */
function plain(text, longest = 60) {
  const all = String(text);
  const cut = all.length > longest ? `${all.slice(0, longest - 1)}…` : all;
  return cut.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return MISSING;
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (value) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

function quantity(value) {
  if (value === null || value === undefined) return MISSING;
  for (const [limit, divisor, suffix] of [
    [1e3, 1, ""],
    [1e6, 1e3, " k"],
    [1e9, 1e6, " M"],
  ]) {
    if (Math.abs(value) < limit * 0.9995) return `${Number((value / divisor).toPrecision(3))}${suffix}`;
  }
  return `${Number((value / 1e9).toPrecision(3))} G`;
}

const percent = (share, digits = 1) =>
  share === null || share === undefined ? MISSING : `${(100 * share).toFixed(digits)} %`;

function usd(amount) {
  if (amount === null || amount === undefined) return MISSING;
  return amount >= 0.0995 || amount === 0 ? `$${amount.toFixed(2)}` : `$${Number(amount.toPrecision(2))}`;
}

const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Wilson interval of a share, 95 %. */
function wilson(successes, episodes) {
  const z = 1.959963984540054,
    share = successes / episodes,
    zz = (z * z) / episodes;
  const centre = share + zz / 2,
    spread = z * Math.sqrt((share * (1 - share)) / episodes + zz / 4 / episodes);
  return [Math.max(0, (centre - spread) / (1 + zz)), Math.min(1, (centre + spread) / (1 + zz))];
}

/** Splits items into groups, in the order of their first members. */
function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) {
    const value = key(item);
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(item);
  }
  return groups;
}

/** Takes the content of the page, at the beginning and whenever the page is updated in place. */
function takeModel(content) {
  model = content;
  runs = model.runs.map((run, index) => ({
    ...run,
    ...run.summary,
    index,
    envs: run.summary.num_envs * run.summary.world_size,
  }));
  for (const run of runs) {
    const words = [
      ...[run.run_id, run.cohort, run.task, run.rl_library, run.status.replaceAll("_", " "), run.reason],
      ...[run.invalid_reason, run.instance, run.machine, run.device, run.panel, run.physics, `seed ${run.seed}`],
    ];
    run.words = words
      .filter((word) => word !== null)
      .join("\n")
      .toLowerCase();
  }
  for (const panel of model.panels) {
    panel.episodeCells = panel.cells.flatMap((cell, place) => Array(panel.counts[place]).fill(cell));
    panel.names = [...new Set(panel.cells)];
  }
}

takeModel(JSON.parse(byId("ledger").textContent));

const statusWords = (status) => (status === "completed" ? "short of target" : status.replaceAll("_", " "));
const runTitle = (run) => (run.cohort === null ? run.run_id : `${run.run_id} · ${run.cohort}`);
