// Where the time went: stacked bars, one per run.

const MOST_BARS = 40;

const phaseUnit = () => document.querySelector("input[name=phase-unit]:checked").value;

/** Draws bars of phases; each row is a title, its seconds per phase, and the seconds they are a share of. */
function phaseBars(node, rows, title, label) {
  const share = phaseUnit() === "share";
  const present = PHASES.filter(([phase]) => rows.some((row) => row.phases[phase]));
  const longest = Math.max(1, ...rows.map((row) => row.wall_s));
  const data = present.map(([phase, light, dark, pattern]) => {
    const seconds = rows.map((row) => row.phases[phase] ?? 0);
    const values = seconds.map((s, i) => (share ? (100 * s) / rows[i].wall_s : s));
    const wide = seconds.map((s, i) => s / (share ? rows[i].wall_s : longest));
    return {
      type: "bar",
      orientation: "h",
      name: phase,
      y: rows.map((_, i) => i),
      x: values,
      marker: {
        color: isDark() ? dark : light,
        pattern: {
          shape: pattern,
          fillmode: "overlay",
          fgcolor: colours().paper,
          fgopacity: 0.8,
          size: 6,
          solidity: 0.25,
        },
        line: { color: colours().paper, width: 0.6 },
      },
      text: values.map((value, i) =>
        wide[i] >= (narrow() ? 0.16 : 0.05) ? (share ? `${value.toFixed(0)} %` : duration(seconds[i])) : "",
      ),
      textposition: "inside",
      insidetextanchor: "middle",
      textangle: 0,
      textfont: {
        size: 10.5,
        color:
          ["compile", "simulate", "transfer", "unattributed", "checkpoint", "restart"].includes(phase) && !isDark()
            ? "#fff"
            : "#111",
      },
      constraintext: "none",
      customdata: rows.map((row, i) => [plain(row.title), duration(seconds[i]), percent(seconds[i] / row.wall_s)]),
      hovertemplate: `%{customdata[0]}<br>${phase}: %{customdata[1]} = %{customdata[2]} of the wall-clock time<extra></extra>`,
    };
  });
  const unit = narrow() ? 34 : 26;
  plot(node, {
    title,
    label,
    key: present.map(([phase, light, dark]) => ({ fill: isDark() ? dark : light, text: phase })),
    height: 70 + unit * rows.length,
    data,
    layout: {
      barmode: "stack",
      bargap: 0.22,
      margin: { l: 8, r: 16, t: 4, b: 40 },
      xaxis: share
        ? axis("share of the wall-clock time of all attempts [%]", { range: [0, 100] })
        : axis(`wall-clock time of all attempts ${timeUnit(longest)}`, { range: [0, longest * 1.02], ...timeTicks(longest) }),
      yaxis: axis("", {
        tickvals: rows.map((_, i) => i),
        ticktext: rows.map((row) => plain(row.title, narrow() ? 14 : 40)),
        range: [rows.length - 0.4, -0.6],
        fixedrange: true,
      }),
    },
  });
}

function drawPhases(node) {
  const timed = shown.filter((run) => run.wall_s > 0);
  if (!timed.length) return emptyNote(node, "No run with a wall-clock time passes the filters.");
  const drawn = timed
    .slice(0, MOST_BARS)
    .map((run) => ({ title: narrow() ? run.run_id : runTitle(run), phases: run.phases, wall_s: run.wall_s }));
  phaseBars(
    node,
    drawn,
    "Phases of each run",
    `Phases of ${counted(drawn.length, "run")} as stacked bars; the table below has the figures`,
  );
  if (timed.length > drawn.length)
    node.append(
      element(
        "p",
        { class: "note" },
        `The first ${drawn.length} of ${timed.length} runs: narrow the filters to see others.`,
      ),
    );
  node.append(phaseTable(drawn));
}

function phaseTable(rows) {
  const present = PHASES.map(([phase]) => phase).filter((phase) => rows.some((row) => row.phases[phase]));
  const head = ["run", "wall-clock", ...present].map((title) => element("th", { scope: "col" }, title));
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      element("td", {}, nameOf(row.title)),
      element("td", {}, duration(row.wall_s)),
      ...present.map((phase) =>
        element(
          "td",
          {},
          row.phases[phase] ? `${row.phases[phase].toFixed(1)} s` : MISSING,
          element("small", {}, row.phases[phase] ? percent(row.phases[phase] / row.wall_s) : ""),
        ),
      ),
    ),
  );
  return element(
    "details",
    {},
    element("summary", {}, "Every phase as a table"),
    wideTable(
      "Phases",
      element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)),
    ),
  );
}
