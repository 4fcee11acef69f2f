// Puts the page together: filters, figures, theme, window and printer.

fillFilters();
sortable();
listeners.push(showTables, showTiles);

figurePlace("curves-body", drawCurves);
figurePlace("cohorts-body", drawCohorts);
figurePlace("phases-body", drawPhases);
figurePlace("panels-body", drawPanels);
figurePlace("sides-body", drawSides);
figurePlace("telemetry-body", drawTelemetry);
figurePlace("health-body", drawHealth);

byId("curves-x").addEventListener("change", () => redraw("curves-body", "sides-body"));
byId("curves-colour").addEventListener("change", () => redraw("curves-body"));
document
  .querySelectorAll("input[name=phase-unit]")
  .forEach((radio) => radio.addEventListener("change", () => redraw("phases-body", "sides-body")));
["panel", "panel-rows", "panel-order"].forEach((id) => byId(id).addEventListener("change", () => redraw("panels-body")));
["side-a", "side-b"].forEach((id) =>
  byId(id).addEventListener("change", () => {
    sideAsked.set(id, sideOptions[Number(byId(id).value)].key);
    redraw("sides-body");
  }),
);
byId("telemetry-run").addEventListener("change", () => redraw("telemetry-body"));

const THEMES = ["automatic", "light", "dark"];
const theme = () => document.documentElement.dataset.theme ?? "automatic";
function setTheme(next) {
  if (next === "automatic") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  byId("theme").textContent = `theme: ${next}`;
}
byId("theme").addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());

let width = innerWidth,
  resizing = 0;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    if (innerWidth === width || printing) return;
    width = innerWidth;
    redraw();
  }, 150);
});

// Paper shows everything that passes the filters: all rows, open details, figures in black on white.
let opened = [];
addEventListener("beforeprint", () => {
  printing = true;
  showTables();
  places.forEach(drawPlace);
  opened = [...document.querySelectorAll("details:not([open]):not(.long)")];
  opened.forEach((details) => {
    details.open = true;
  });
});
addEventListener("afterprint", () => {
  printing = false;
  opened.forEach((details) => {
    details.open = false;
  });
  showTables();
  redraw();
});

const place = recall();
applyFilters();
goTo(place);
follow();
document.documentElement.dataset.ready = "true";
