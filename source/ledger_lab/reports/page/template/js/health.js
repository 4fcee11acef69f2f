// What went wrong in the trainings, in order.

const MOST_EVENTS = 200;

function drawHealth(node) {
  const events = shown.flatMap((run) => run.health_events.map(([at_s, event]) => ({ run, at_s, ...event })));
  if (!events.length) return emptyNote(node, `No health event in ${counted(shown.length, "run")}.`);
  const head = ["run", "at", "event", "evidence", "advice"].map((title) => element("th", { scope: "col" }, title));
  const rows = events
    .slice(0, MOST_EVENTS)
    .map((e) =>
      element(
        "tr",
        {},
        element("td", { "data-label": "run" }, nameOf(e.run.run_id)),
        element("td", { "data-label": "at" }, `${duration(e.at_s)}`, element("small", {}, `iteration ${e.iteration}`)),
        element(
          "td",
          { "data-label": "event" },
          element("span", { class: "status bad" }, "▼ ", nameOf(e.event.replaceAll("_", " "))),
          element("small", {}, e.stops ? "ended the run" : ""),
        ),
        element("td", { "data-label": "evidence" }, nameOf(e.evidence)),
        element("td", { "data-label": "advice" }, nameOf(e.advice)),
      ),
    );
  node.append(
    wideTable(
      "Health events",
      element(
        "table",
        { class: "cards events" },
        element("thead", {}, element("tr", {}, ...head)),
        element("tbody", {}, ...rows),
      ),
    ),
  );
  const affected = new Set(events.map((e) => e.run.index)).size;
  node.append(
    element(
      "p",
      { class: "note" },
      `${counted(events.length, "event")} in ${affected} of ${counted(shown.length, "run")}${events.length > MOST_EVENTS ? `, the first ${MOST_EVENTS} of them` : ""}.`,
    ),
  );
}
