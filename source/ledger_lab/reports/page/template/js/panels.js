// Panels by cell, and the map of the seeds that fail. A policy's episodes are one letter each.

const MOST_ROWS = 60;
const MOST_PANELS = 6;
let panelsOffered = [];
const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const codeOf = new Map([...LETTERS].map((letter, code) => [letter, code]));

const panelTitle = (panel) =>
  `${panel.panel} (${panel.panel_id.slice(0, 11)}…), ${counted(panel.seeds.length, "episode")}`;

/** A run's sheet of a panel: that of the policy that was proven, else the last one. */
function finalSheet(run, panel) {
  const own = run.sheets.filter((sheet) => sheet.panel === panel);
  const proven = run.scores.find((score) => score.proven);
  return own.find((sheet) => proven && sheet.checkpoint === proven.path) ?? own[own.length - 1];
}

/** Fills the two choices with what the filters leave, and keeps what was chosen where it is still there. */
function fillPanelChoices() {
  const taken = new Map();
  for (const run of shown)
    for (const panel of new Set(run.sheets.map((sheet) => sheet.panel))) taken.set(panel, (taken.get(panel) ?? 0) + 1);
  const panels = [...taken.keys()].sort((a, b) => taken.get(b) - taken.get(a) || a - b);
  const all =
    panels.length > 1
      ? [["all", `all ${panels.length > MOST_PANELS ? `(the first ${MOST_PANELS} of ${panels.length})` : panels.length}`]]
      : [];
  panelsOffered = panels;
  choices(byId("panel"), [
    ...all,
    ...panels.map((panel) => [String(panel), `${panelTitle(model.panels[panel])}, ${counted(taken.get(panel), "run")}`]),
  ]);
  const panel = byId("panel").value === "all" ? panels[0] : Number(byId("panel").value);
  const several = shown.filter((run) => run.sheets.filter((sheet) => sheet.panel === panel).length > 1);
  choices(byId("panel-rows"), [
    ["final", "the final one of each run"],
    ...several.map((run) => [String(run.index), `all of run ${runTitle(run)}`]),
  ]);
}

function choices(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, words]) => element("option", { value }, words)));
  if (options.some(([value]) => value === before)) select.value = before;
  select.disabled = options.length === 0;
}

function drawPanels(node) {
  fillPanelChoices();
  if (byId("panel").value === "") return emptyNote(node, "No policy of these runs was scored on held-out episodes.");
  const asked = byId("panel").value;
  for (const place of asked === "all" ? panelsOffered.slice(0, MOST_PANELS) : [Number(asked)]) drawPanel(node, place);
  const notes = ["Proofs are not drawn here: their seeds are fresh each time."];
  if (model.left_out_sheets)
    notes.unshift(
      `To keep the page small, the episodes of ${model.left_out_sheets} earlier policies are left out; their totals are in the table of scores.`,
    );
  node.append(element("p", { class: "note" }, notes.join(" ")));
}

function drawPanel(node, place) {
  const panel = model.panels[place],
    rows = byId("panel-rows").value;
  const sheets =
    rows === "final"
      ? shown
          .filter((run) => run.sheets.some((sheet) => sheet.panel === place))
          .map((run) => ({ title: narrow() ? run.run_id : runTitle(run), ...finalSheet(run, place) }))
      : runs[Number(rows)].sheets
          .filter((sheet) => sheet.panel === place)
          .map((sheet) => ({ title: sheet.checkpoint, ...sheet }));
  if (!sheets.length) return;
  const drawn = sheets.slice(0, MOST_ROWS);
  node.append(element("h3", {}, "panel ", nameOf(panelTitle(panel))));
  if (panel.names.length > 1) drawCells(node, panel, drawn);
  drawSeeds(node, panel, drawn);
  if (sheets.length > drawn.length)
    node.append(
      element(
        "p",
        { class: "note" },
        `The first ${drawn.length} of ${sheets.length} policies: narrow the filters to see others.`,
      ),
    );
}

/** Successes and episodes of a sheet in each cell. */
function byCell(panel, sheet) {
  return panel.names.map((name) => {
    let [successes, episodes] = [0, 0];
    panel.episodeCells.forEach((cell, i) => {
      if (cell !== name) return;
      episodes += 1;
      successes += codeOf.get(sheet.letters[i]) === 0;
    });
    return { name, successes, episodes, interval: wilson(successes, episodes) };
  });
}

function drawCells(node, panel, sheets) {
  const table = sheets.map((sheet) => byCell(panel, sheet));
  const drawn = sheets.slice(0, 12);
  const lowest = Math.min(
    ...table
      .slice(0, drawn.length)
      .flat()
      .map((cell) => cell.interval[0]),
  );
  const spread = panel.names.length > 1 ? 0.6 / (panel.names.length - 1) : 0;
  const data = panel.names.map((name, i) => {
    const cells = drawn.map((_, row) => table[row][i]);
    const shares = cells.map((cell) => (100 * cell.successes) / cell.episodes);
    return {
      type: "scatter",
      mode: "markers",
      x: shares,
      y: drawn.map((_, row) => row - 0.3 + spread * i),
      cliponaxis: false,
      marker: { color: hue(i), symbol: SYMBOLS[i % SYMBOLS.length], size: 8 },
      error_x: {
        type: "data",
        symmetric: false,
        thickness: 1.4,
        width: 2,
        color: hue(i),
        array: cells.map((cell, k) => 100 * cell.interval[1] - shares[k]),
        arrayminus: cells.map((cell, k) => shares[k] - 100 * cell.interval[0]),
      },
      customdata: cells.map((cell, k) => [plain(drawn[k].title), plain(name), `${cell.successes}/${cell.episodes}`]),
      hovertemplate: "%{customdata[0]}<br>%{customdata[1]}: %{customdata[2]} = %{x:.1f} %<extra></extra>",
    };
  });
  plot(node, {
    title: "Success by cell",
    key: panel.names.map((name, i) => ({ sign: SIGNS[i % SIGNS.length], colour: hue(i), text: name })),
    height: 80 + drawn.length * Math.max(44, 13 * panel.names.length),
    data,
    label: `Success in each of ${panel.names.length} cells; the table below has the figures`,
    layout: {
      margin: { l: 8, r: 16, t: 6, b: 42 },
      xaxis: axis(
        narrow() ? "success in the cell [%]" : "successes of the cell's episodes, with Wilson intervals, 95 % [%]",
        { range: [Math.max(-1, 10 * Math.floor(10 * lowest) - 1), 101] },
      ),
      yaxis: axis("", {
        tickvals: drawn.map((_, i) => i),
        ticktext: drawn.map((sheet) => plain(sheet.title, narrow() ? 14 : 40)),
        range: [drawn.length - 0.5, -0.5],
        fixedrange: true,
        showgrid: false,
      }),
      shapes: drawn.slice(1).map((_, i) => ({
        type: "line",
        xref: "paper",
        x0: 0,
        x1: 1,
        y0: i + 0.5,
        y1: i + 0.5,
        line: { color: colours().line, width: 1 },
      })),
    },
  });
  const head = ["policy", ...panel.names].map((title) => element("th", { scope: "col" }, nameOf(title)));
  const body = sheets.map((sheet, row) =>
    element(
      "tr",
      {},
      element("td", {}, nameOf(sheet.title)),
      ...table[row].map((cell) =>
        element(
          "td",
          {},
          `${cell.successes}/${cell.episodes}`,
          element(
            "small",
            {},
            `${percent(cell.successes / cell.episodes)} [${(100 * cell.interval[0]).toFixed(1)}, ${(100 * cell.interval[1]).toFixed(1)}]`,
          ),
        ),
      ),
    ),
  );
  node.append(
    element(
      "details",
      {},
      element("summary", {}, "Every cell as a table"),
      wideTable(
        "Cells",
        element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)),
      ),
    ),
  );
}

function drawSeeds(node, panel, sheets) {
  const codes = sheets.map((sheet) => Array.from(sheet.letters, (letter) => codeOf.get(letter)));
  const failures = panel.seeds.map((_, i) => codes.filter((row) => row[i] !== 0).length);
  const order = panel.seeds.map((_, i) => i);
  const cellPlace = new Map(panel.names.map((name, i) => [name, i]));
  const hardest = byId("panel-order").value === "hard";
  order.sort(
    (a, b) =>
      cellPlace.get(panel.episodeCells[a]) - cellPlace.get(panel.episodeCells[b]) ||
      (hardest ? failures[b] - failures[a] : 0) ||
      panel.seeds[a] - panel.seeds[b] ||
      a - b,
  );
  const used = [...new Set(codes.flat())].sort((a, b) => a - b);
  const c = colours();
  const paints = [
    c.won,
    "#0072B2",
    isDark() ? "#FF8C42" : "#D55E00",
    isDark() ? "#ffffff" : "#15181d",
    "#CC79A7",
    "#E69F00",
    "#009E73",
    "#8C6D00",
    "#7F7F7F",
  ];
  const paint = new Map(
    used.map((code) => [code, code < 2 ? paints[code] : paints[2 + ((code - 2) % (paints.length - 2))]]),
  );
  const scale = used.flatMap((code, i) => [
    [i / used.length, paint.get(code)],
    [(i + 1) / used.length, paint.get(code)],
  ]);
  const rank = new Map(used.map((code, i) => [code, i]));
  const total = codes.length * order.length;
  const tally = new Map(
    used.map((code) => [code, codes.reduce((sum, row) => sum + row.filter((each) => each === code).length, 0)]),
  );
  const starts = order.flatMap((i, x) =>
    x === 0 || panel.episodeCells[i] !== panel.episodeCells[order[x - 1]] ? [x] : [],
  );
  const several = panel.names.length > 1;
  const roomy = several && (printing ? PAPER_WIDTH : node.clientWidth) / panel.names.length >= 80;
  const every =
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].find((step) => order.length / step <= (narrow() ? 5 : 12)) ?? 1024;
  const ticks = several || hardest ? [] : order.map((_, x) => x).filter((x) => x % every === 0);
  plot(node, {
    title: "Which episodes fail",
    key: used.map((code) => ({ fill: paint.get(code), text: `${model.ends[code]}: ${tally.get(code)} of ${total}` })),
    height: (roomy ? 94 : 78) + sheets.length * (sheets.length > 20 ? 14 : 20),
    label: `Outcome of each of ${order.length} episodes for ${counted(sheets.length, "row")}; the hardest are named below`,
    data: [
      {
        type: "heatmap",
        z: codes.map((row) => order.map((i) => rank.get(row[i]))),
        zmin: 0,
        zmax: used.length,
        colorscale: scale.length ? scale : undefined,
        showscale: false,
        xgap: order.length > 160 ? 0.3 : 1,
        ygap: 2,
        zauto: false,
        text: codes.map((row, k) =>
          order.map(
            (i) =>
              `${plain(sheets[k].title)}<br>${several ? `${plain(panel.episodeCells[i])}, ` : ""}seed ${panel.seeds[i]}<br>${plain(model.ends[row[i]])}`,
          ),
        ),
        hovertemplate: "%{text}<extra></extra>",
      },
    ],
    layout: {
      margin: { l: 8, r: 12, t: roomy ? 20 : 4, b: 42 },
      annotations: roomy
        ? starts.map((x, i) => ({
            x: (x + (starts[i + 1] ?? order.length)) / 2 - 0.5,
            yref: "paper",
            y: 1,
            yanchor: "bottom",
            text: plain(panel.episodeCells[order[x]], 20),
            showarrow: false,
            font: { size: 11, color: c.soft },
          }))
        : [],
      xaxis: axis(
        several
          ? `episodes, by cell${hardest ? ", the hardest first" : " and seed"}`
          : hardest
            ? "episodes, the hardest first"
            : "seed",
        { tickvals: ticks, ticktext: ticks.map((x) => String(panel.seeds[order[x]])), showgrid: false },
      ),
      yaxis: axis("", {
        tickvals: sheets.map((_, i) => i),
        ticktext: sheets.map((sheet) => plain(sheet.title, narrow() ? 14 : 40)),
        range: [sheets.length - 0.5, -0.5],
        showgrid: false,
        fixedrange: true,
      }),
      shapes: starts.slice(1).map((x) => ({
        type: "line",
        x0: x - 0.5,
        x1: x - 0.5,
        yref: "paper",
        y0: 0,
        y1: 1,
        line: { color: c.ink, width: 1 },
      })),
    },
  });
  if (several && !roomy)
    node.append(element("p", { class: "note" }, "Cells, from the left: ", nameOf(panel.names.join(" · "))));
  const worst = panel.seeds
    .map((seed, i) => [failures[i], i])
    .filter(([count]) => count > 0)
    .sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  const named = worst
    .slice(0, 12)
    .map(([count, i]) => `${several ? `${panel.episodeCells[i]}/` : ""}${panel.seeds[i]} (${count} of ${sheets.length})`)
    .join(", ");
  node.append(
    element(
      "p",
      { class: "note" },
      worst.length
        ? `Seeds that fail${sheets.length > 1 ? " most often" : ""}: ${named}${worst.length > 12 ? ` and ${worst.length - 12} more` : ""}; ${worst.length} of ${panel.seeds.length} episodes fail${sheets.length > 1 ? " at least once" : ""}.`
        : `No episode of ${panel.seeds.length} fails in any row.`,
    ),
  );
}
