// What host and accelerators were doing, one small figure per meter.

function fillTelemetryRuns() {
  const metered = shown.filter((run) => run.telemetry.length);
  choices(
    byId("telemetry-run"),
    metered.map((run) => [String(run.index), runTitle(run)]),
  );
}

function drawTelemetry(node) {
  fillTelemetryRuns();
  const leftOut = shown.filter((run) => run.telemetry_left_out).length;
  if (leftOut)
    node.append(
      element(
        "p",
        { class: "note" },
        `Of ${leftOut} of these ${shown.length} runs, telemetry was left out of the ledger. Their load and energy are unknown for the attempts concerned.`,
      ),
    );
  if (byId("telemetry-run").value === "") return emptyNote(node, "None of these runs has telemetry.");
  const run = runs[Number(byId("telemetry-run").value)];
  const meters = groupBy(run.telemetry, (series) =>
    series.owner === "host" ? `host ${series.meter}` : `device ${series.meter}`,
  );
  const devices = [...new Set(run.telemetry.map((series) => series.owner))].filter((owner) => owner !== "host");
  const grid = element("div", { class: "pair" });
  if (devices.length)
    legend(
      node,
      devices.map((owner, i) => ({ sign: "▬", colour: hue(i), text: owner })),
    );
  node.append(grid);
  const longest = Math.max(run.wall_s, ...run.telemetry.map((series) => series.t[series.t.length - 1]));
  const c = colours();
  const moments = [
    ...(run.wall_to_target_s === null ? [] : [{ at: run.wall_to_target_s, text: "★ target", colour: c.good }]),
    ...run.health_events.map(([at, event]) => ({
      at,
      text: `▼ ${plain(event.event.replaceAll("_", " "), 24)}`,
      colour: c.bad,
    })),
  ];
  for (const [title, group] of meters) {
    const cell = element("div");
    grid.append(cell);
    const highest = Math.max(...group.map((series) => series.highest));
    plot(cell, {
      title: `${title} [${group[0].unit}]`,
      height: 170,
      label: `${title} over the wall-clock time of run ${run.run_id}; the table below has mean and peak`,
      data: group.map((series) => ({
        type: "scatter",
        mode: "lines",
        x: series.t,
        y: series.y,
        line: {
          width: 1.5,
          color: series.owner === "host" ? hue(6) : hue(devices.indexOf(series.owner)),
          dash: DASHES[Math.max(0, devices.indexOf(series.owner)) % DASHES.length],
        },
        meta: plain(series.owner),
        hovertemplate: `%{meta}: %{y:.4g} ${group[0].unit === "%" ? "&#37;" : group[0].unit}<extra></extra>`,
      })),
      layout: {
        margin: { l: 46, r: 10, t: 16, b: 34 },
        xaxis: axis("", { range: [0, longest * 1.02], ...timeTicks(longest) }),
        yaxis: axis("", { range: group[0].unit === "%" ? [0, 104] : [0, highest * 1.12 || 1] }),
        shapes: moments.map((m) => ({
          type: "line",
          x0: m.at,
          x1: m.at,
          yref: "paper",
          y0: 0,
          y1: 1,
          line: { color: m.colour, width: 1.2, dash: "dot" },
        })),
        annotations: moments.map((m, i) => ({
          x: m.at,
          yref: "paper",
          y: 1,
          yanchor: "bottom",
          xanchor: i % 2 ? "left" : "right",
          text: m.text,
          showarrow: false,
          font: { size: 10, color: m.colour },
        })),
      },
    });
  }
  const rows = run.telemetry.map((series) =>
    element(
      "tr",
      {},
      element("td", {}, series.meter, element("small", {}, nameOf(series.owner))),
      ...[series.mean, series.highest].map((value) =>
        element("td", { class: "number" }, `${Number(value.toPrecision(4))} ${series.unit}`),
      ),
      element("td", { class: "number" }, String(series.samples)),
    ),
  );
  const head = [
    ["meter", "word"],
    ["mean", "number"],
    ["highest", "number"],
    ["samples", "number"],
  ].map(([title, style]) => element("th", { scope: "col", class: style }, title));
  const thinned = run.telemetry.some((series) => series.samples > series.y.length);
  node.append(
    wideTable(
      "Telemetry",
      element("table", { class: "meters" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
    ),
  );
  node.append(
    element(
      "p",
      { class: "note" },
      `Over the wall-clock time of run ${run.run_id} ${timeUnit(longest)}.${thinned ? ` Curves are thinned out to at most ${model.most_points} points, each the mean of some samples in a row; mean and highest are of all samples.` : ""} Device memory is that of the whole device.`,
    ),
  );
}
