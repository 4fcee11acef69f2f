// Colours and the look of the figures. Hues are those of Okabe and Ito, which colour-blind readers can tell apart;
// wherever a colour says something, a sign, a pattern or a text says it, too.

const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#8C6D00"];
const DARK_HUES = ["#56B4E9", "#FF8C42", "#2FCB9A", "#E6A3C8", "#9AD1F2", "#F2BE4A", "#B5B5B5", "#D4B84A"];
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "cross", "x", "triangle-left", "pentagon"];
const SIGNS = ["●", "■", "▲", "◆", "✚", "✖", "◀", "⬟"];
const DASHES = ["solid", "dash", "dot", "dashdot"];

const PHASES = [
  // name, colour on light, colour on dark, pattern
  ["startup", "#8a929c", "#7c848f", ""],
  ["compile", "#5f6772", "#a3abb6", "/"],
  ["simulate", "#0072B2", "#2E8BC7", ""],
  ["manage", "#56B4E9", "#8FCDF2", ""],
  ["infer", "#009E73", "#20B58B", ""],
  ["replay_write", "#4C8C6B", "#6DB08D", "."],
  ["returns", "#7CC8B0", "#8FD9C3", "\\"],
  ["replay_sample", "#F2C879", "#F2D29A", "/"],
  ["learn", "#E69F00", "#EBAE2A", ""],
  ["synchronize", "#CC79A7", "#D892B9", "x"],
  ["transfer", "#A65A87", "#B87AA0", "-"],
  ["evaluate", "#D55E00", "#E07A2A", ""],
  ["log", "#C9B58B", "#CDBB94", "."],
  ["checkpoint", "#8C6D00", "#B39428", "|"],
  ["restart", "#A8324A", "#D9697F", "-"],
  ["suspended", "#d8c9e8", "#6b5b80", "."],
  ["shutdown", "#b9c0c9", "#4d5560", "\\"],
  ["unattributed", "#3a3f46", "#d0d6dd", "x"],
];

let printing = false;

function isDark() {
  if (printing) return false;
  const asked = document.documentElement.dataset.theme;
  return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const hue = (place) => (isDark() ? DARK_HUES : HUES)[place % HUES.length];

function colours() {
  const names = ["paper", "raised", "ink", "soft", "line", "grid", "good", "bad", "short", "won", "accent"];
  if (printing) {
    return {
      paper: "#fff",
      raised: "#f4f5f7",
      ink: "#000",
      soft: "#444b55",
      line: "#c3c8d0",
      grid: "#e6e9ee",
      good: "#00523d",
      bad: "#8a2800",
      short: "#6b4500",
      won: "#dfe7ef",
      accent: "#0b5cad",
    };
  }
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const narrow = () => !printing && innerWidth <= 760;
const coarse = matchMedia("(pointer: coarse)").matches;

/** Whole seconds, minutes or hours that make about six steps. */
function timeTicks(longest) {
  const steps = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
  ];
  const step = steps.find((candidate) => longest / candidate <= (narrow() ? 4 : 7)) ?? Math.ceil(longest / 6);
  const values = [];
  for (let value = 0; value <= longest * 1.02; value += step) values.push(value);
  return { tickvals: values, ticktext: values.map(duration) };
}

const timeUnit = (longest) => (longest >= 3600 ? "[h:min:s]" : "[min:s]");

function axis(title, more = {}) {
  const c = colours();
  return {
    title: { text: title, standoff: 8, font: { size: 12, color: c.soft } },
    gridcolor: c.grid,
    linecolor: c.line,
    zeroline: false,
    tickfont: { size: 11, color: c.soft },
    automargin: true,
    fixedrange: coarse,
    ...more,
  };
}

function layout(more) {
  const c = colours();
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: c.ink },
    margin: { l: 48, r: 12, t: 8, b: 40 },
    showlegend: false,
    hovermode: "closest",
    dragmode: coarse ? false : "zoom",
    hoverlabel: { bgcolor: c.raised, bordercolor: c.line, font: { color: c.ink } },
    ...more,
  };
}

const CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset" };

// The figures: each place on the page draws itself when it comes near the window, and again when something changes.

const places = [];
const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const place = places.find((candidate) => candidate.node === entry.target);
      place.near = entry.isIntersecting;
      if (place.near && place.stale) drawPlace(place);
    }
  },
  { rootMargin: "500px" },
);

/** Names what fills a part of the page. */
function figurePlace(id, fill) {
  const place = { node: byId(id), fill, stale: true, near: false };
  place.node.setAttribute("aria-busy", "true");
  places.push(place);
  watcher.observe(place.node);
}

const drawn = new WeakMap(); // when the drawing of each figure is complete; Plotly fails if it is purged before

function drawPlace(place) {
  place.stale = false;
  const opened = place.opened ?? openedIn(place.node);
  place.node.style.minHeight = `${place.node.clientHeight}px`; // else the page jumps while the place is empty
  for (const old of place.node.querySelectorAll(".plot")) drawn.get(old)?.finally(() => Plotly.purge(old));
  place.node.replaceChildren();
  place.fill(place.node);
  place.node.querySelectorAll("details").forEach((details, i) => {
    details.open = Boolean(opened[i]);
  });
  place.opened = undefined;
  place.node.style.minHeight = "";
  place.node.removeAttribute("aria-busy");
}

/** Tells which details in a part of the page are open, in order. */
const openedIn = (node) => [...node.querySelectorAll("details")].map((details) => details.open);

/** Draws again what can be seen, and the rest when it comes into sight. */
function redraw(...ids) {
  for (const place of places) {
    if (ids.length && !ids.includes(place.node.id)) continue;
    place.stale = true;
    place.node.setAttribute("aria-busy", "true");
    if (!place.near) continue;
    if (refreshing && place.node.matches(":hover, :focus-within")) drawLater(place);
    else drawPlace(place);
  }
}

let refreshing = false; // whether the page draws by itself, and not because the reader has asked for something

/** Draws a figure that the reader points at when the pointer has left it, since drawing takes back what was zoomed. */
function drawLater(place) {
  const draw = () => {
    if (place.stale && place.near) drawPlace(place);
  };
  place.node.addEventListener("mouseleave", draw, { once: true });
  place.node.addEventListener("focusout", draw, { once: true });
}

/** Disarms markup in whatever Plotly gets: of all that it understands, links included, the page needs two elements. */
function withoutMarkup(value) {
  if (typeof value === "string") return value.replace(/<(?!br>|extra><\/extra>|\/extra>)/g, "&lt;");
  if (Array.isArray(value)) return value.map(withoutMarkup);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutMarkup(each)]));
}

/** Puts a figure into a node, with a heading, a description for those who can't see it, and a button that saves it. */
function plot(node, { title, label, height, data, layout: look, key = [] }) {
  const target = element("div", { class: "plot", role: "img", "aria-label": label });
  const save = element("button", { type: "button", class: "save", "aria-label": `Save as SVG: ${label}` }, "SVG");
  save.addEventListener("click", () => {
    Plotly.downloadImage(target, { format: "svg", filename: "ledgerlab-figure", width: target.clientWidth, height });
  });
  const figure = element(
    "figure",
    {},
    element("div", { class: "figure-head" }, element("h4", {}, nameOf(title)), save),
  );
  if (key.length) legend(figure, key);
  figure.append(target);
  node.append(figure);
  const width = printing ? printWidth(node) : target.clientWidth || undefined;
  drawn.set(target, Plotly.newPlot(target, withoutMarkup(data), withoutMarkup(layout({ height, width, ...look })), CONFIG));
  return target;
}

const PAPER_WIDTH = 1000;
const printWidth = (node) => (node.closest(".pair") ? PAPER_WIDTH / 2 - 10 : PAPER_WIDTH);

function legend(node, items) {
  const list = element("ul", { class: "legend" });
  for (const { sign, colour, fill, text } of items) {
    const mark = fill
      ? element("span", { class: "swatch", fill, "aria-hidden": "true" })
      : element("span", { class: "sign", colour, "aria-hidden": "true" }, sign);
    list.append(element("li", {}, mark, nameOf(text)));
  }
  node.append(list);
}

/** Wraps a table that may be wider than the window, so that it can be scrolled, by keyboard, too. */
const wideTable = (label, table) =>
  element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, table);

const emptyNote = (node, text) => node.append(element("p", { class: "empty" }, text));
