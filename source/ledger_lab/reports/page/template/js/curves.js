// Success and return over time: one pair of figures per yardstick, because scores of two yardsticks are never compared.

const MOST_CURVES = 120;
const MOST_WITH_BARS = 16;

function colourKey(members) {
  const asked = byId("curves-colour").value;
  if (asked !== "auto") return asked === "run" ? "run_id" : asked;
  if (members.length <= 8) return "run_id";
  for (const field of ["cohort", "rl_library", "instance"]) {
    if (new Set(members.map((run) => run[field])).size > 1) return field;
  }
  return "run_id";
}

/** Gives each run a colour, a dash and a sign by what tells the runs apart. */
function styles(members, key) {
  const groups = [...groupBy(members, (run) => run[key]).keys()];
  const style = new Map();
  groups.forEach((group, place) => {
    const own = members.filter((run) => run[key] === group);
    own.forEach((run, number) =>
      style.set(run.index, {
        colour: hue(place),
        dash: DASHES[Math.floor(place / HUES.length) % DASHES.length],
        symbol: SYMBOLS[(key === "run_id" ? place : number) % SYMBOLS.length],
        group,
      }),
    );
  });
  const items = groups.map((group, place) => ({
    sign: key === "run_id" ? SIGNS[place % SIGNS.length] : "▬",
    colour: hue(place),
    text:
      key === "run_id"
        ? runTitle(members.find((run) => run.run_id === group))
        : group === null
          ? "in no cohort"
          : `${group} (${counted(members.filter((run) => run[key] === group).length, "run")})`,
  }));
  return { style, items };
}

function drawCurves(node) {
  if (!shown.length) return emptyNote(node, "No run passes the filters.");
  for (const [place, all] of groupBy(shown, (run) => run.yardstick)) {
    const yardstick = model.yardsticks[place];
    const members = all.slice(0, MOST_CURVES);
    const { style, items } = styles(members, colourKey(members));
    const block = element(
      "div",
      { class: "block" },
      element(
        "h3",
        {},
        nameOf(yardstick.task),
        " · panel ",
        nameOf(yardstick.panel),
        ` · ${counted(all.length, "run")}`,
      ),
    );
    node.append(block);
    legend(block, items.slice(0, 40));
    const pair = element("div", { class: "pair" });
    block.append(pair);
    const [left, right] = [element("div"), element("div")];
    pair.append(left, right);
    drawPair(left, right, yardstick, members, style);
    const notes = [];
    if (all.length > members.length)
      notes.push(`The first ${members.length} of ${all.length} runs are drawn: narrow the filters to see others.`);
    if (members.length > MOST_WITH_BARS)
      notes.push(
        `With more than ${MOST_WITH_BARS} runs, intervals are left out of the figure; each score's counts are in the table.`,
      );
    if (items.length > 40) notes.push(`The key names 40 of ${items.length} colours.`);
    if (members.some((run) => run.returns && run.returns.samples > run.returns.y.length))
      notes.push(`Longer curves are thinned out to ${model.most_points} points, each the mean of some in a row.`);
    if (notes.length) node.append(element("p", { class: "note" }, notes.join(" ")));
    node.append(scoreTable(members));
  }
}

function drawPair(left, right, yardstick, members, style) {
  const steps = byId("curves-x").value === "steps";
  const c = colours();
  const few = members.length <= MOST_WITH_BARS;
  const success = [],
    returns = [],
    marks = [],
    events = [];
  let longest = 1;
  for (const run of members) {
    const look = style.get(run.index);
    longest = Math.max(longest, run.wall_s, run.wall_to_target_s ?? 0);
    if (run.scores.length) {
      const shares = run.scores.map((score) => (100 * score.heldout_successes) / score.heldout_episodes);
      success.push({
        type: "scatter",
        mode: "lines+markers",
        name: plain(run.run_id),
        x: run.scores.map((s) => (steps ? s.env_steps : s.wall_s)),
        y: shares,
        line: { color: look.colour, dash: look.dash, width: few ? 1.6 : 1 },
        opacity: few ? 1 : 0.55,
        marker: { symbol: look.symbol, size: few ? 6 : 4, color: look.colour },
        error_y: few
          ? {
              type: "data",
              symmetric: false,
              thickness: 1,
              width: 0,
              color: look.colour,
              array: run.scores.map((s, i) => 100 * s.high - shares[i]),
              arrayminus: run.scores.map((s, i) => shares[i] - 100 * s.low),
            }
          : undefined,
        customdata: run.scores.map((s) => [
          plain(run.run_id),
          `${s.heldout_successes}/${s.heldout_episodes}`,
          (100 * s.low).toFixed(1),
          (100 * s.high).toFixed(1),
          duration(s.wall_s),
          plain(s.path),
        ]),
        hovertemplate:
          "%{customdata[0]} · %{customdata[5]}<br>%{customdata[1]} = %{y:.1f} % [%{customdata[2]}, %{customdata[3]}]<br>saved at %{customdata[4]}<extra></extra>",
      });
    }
    const proof = run.scores.find((score) => score.proven);
    const moment = steps ? proof?.env_steps : run.wall_to_target_s;
    if (run.target_reached && moment !== undefined)
      marks.push({ run, x: moment, y: 100 * run.heldout_success, colour: look.colour });
    if (run.returns) {
      const x = steps ? run.returns.env_steps : run.returns.t;
      returns.push({
        type: "scatter",
        mode: "lines",
        name: plain(run.run_id),
        x,
        y: run.returns.y,
        line: { color: look.colour, dash: look.dash, width: few ? 1.5 : 1 },
        opacity: few ? 1 : 0.5,
        meta: plain(run.run_id),
        hovertemplate: "%{meta}<br>return %{y:.3g}<extra></extra>",
      });
      if (run.health_events.length) events.push(...eventMarks(run, x, steps));
    }
  }
  const crowded = marks.length > 10 || narrow();
  success.push({
    type: "scatter",
    mode: crowded ? "markers" : "markers+text",
    x: marks.map((m) => m.x),
    y: marks.map((m) => m.y),
    cliponaxis: false,
    marker: { symbol: "star", size: 13, color: marks.map((m) => m.colour), line: { color: c.ink, width: 1 } },
    text: labelled(marks, longest, steps),
    textposition: "top center",
    textfont: { size: 10, color: c.soft },
    customdata: marks.map((m) => [plain(m.run.run_id), duration(m.run.wall_to_target_s)]),
    hovertemplate: "%{customdata[0]} proven at %{customdata[1]}: %{y:.1f} %<extra></extra>",
  });
  const target = Number((100 * yardstick.target_success).toPrecision(12));
  const lines = [
    {
      type: "line",
      xref: "paper",
      x0: 0,
      x1: 1,
      y0: target,
      y1: target,
      line: { color: c.ink, width: 1.2, dash: "dash" },
    },
  ];
  if (!crowded)
    marks.forEach((m) =>
      lines.push({ type: "line", x0: m.x, x1: m.x, y0: 0, y1: m.y, line: { color: m.colour, width: 1, dash: "dot" } }),
    );
  const xAxis = steps
    ? axis("environment steps of the learner", { rangemode: "tozero" })
    : axis(`wall-clock time of the run, all attempts ${timeUnit(longest)}`, { range: [0, longest * 1.03], ...timeTicks(longest) });
  const height = narrow() ? 280 : 340;
  if (success.length > 1 || marks.length) {
    plot(left, {
      title: "Held-out success",
      height,
      data: success,
      label: `Held-out success over ${steps ? "environment steps" : "wall-clock time"} of ${counted(members.length, "run")}, ${marks.length} proven to reach ${target} %`,
      layout: {
        shapes: lines,
        margin: { l: 48, r: 12, t: 22, b: 44 },
        xaxis: xAxis,
        yaxis: axis(`successes of ${yardstick.episodes ?? "the"} episodes [%]`, {
          range: [-3, 103],
          tickvals: [0, 25, 50, 75, 100].filter((tick) => Math.abs(tick - target) > 5).concat(target),
        }),
      },
    });
  } else emptyNote(left, "No checkpoint of these runs was scored on its panel.");
  if (returns.length) {
    returns.push({
      type: "scatter",
      mode: "markers",
      x: events.map((e) => e.x),
      y: events.map((e) => e.y),
      cliponaxis: false,
      marker: { symbol: "triangle-down", size: 12, color: c.bad, line: { color: c.ink, width: 1 } },
      customdata: events.map((e) => [e.text, e.evidence]),
      hovertemplate: "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    });
    plot(right, {
      title: "Training return",
      height,
      data: returns,
      label: `Training return of ${counted(members.length, "run")}`,
      layout: {
        margin: { l: 48, r: 12, t: 22, b: 44 },
        xaxis: xAxis,
        yaxis: axis("mean return of training episodes"),
        annotations:
          events.length > 8 || narrow()
            ? []
            : events.map((e) => ({
                x: e.x,
                y: e.y,
                text: e.text,
                showarrow: false,
                yshift: 15,
                font: { size: 10, color: c.bad },
                bgcolor: c.paper,
                opacity: 0.9,
                borderpad: 1,
              })),
      },
    });
  } else emptyNote(right, "These runs recorded no training return.");
}

/** Names the moments of stars that stand far enough from the one before; the others are in the table. */
function labelled(marks, longest, steps) {
  const order = marks.map((_, i) => i).sort((a, b) => marks[a].x - marks[b].x);
  const width = steps ? Math.max(...marks.map((mark) => mark.x)) : longest;
  const texts = Array(marks.length).fill("");
  let last = -Infinity;
  for (const i of order) {
    if (marks[i].x - last < 0.09 * width) continue;
    texts[i] = duration(marks[i].run.wall_to_target_s);
    last = marks[i].x;
  }
  return texts;
}

/** Places a run's health events on its curve. */
function eventMarks(run, x, steps) {
  return run.health_events.map(([at, event]) => {
    const found = run.returns.t.findIndex((t) => t >= at);
    const place = found < 0 ? run.returns.t.length - 1 : found;
    return {
      x: steps ? x[place] : at,
      y: run.returns.y[place],
      text: plain(event.event.replaceAll("_", " "), 30),
      evidence: plain(event.evidence, 120),
    };
  });
}

/** Tells the peak memory of the accelerator; without an accelerator, that of the host. */
function peakMemory(gpu, host) {
  const peak = gpu ?? host;
  return peak === null ? MISSING : `${gigabytes(peak)} ${gpu === null ? "host" : "GPU"}`;
}

/** Tells how training episodes ended, the most frequent termination first. */
function endingsInWords(endings) {
  if (endings === null) return MISSING;
  const order = Object.entries(endings).sort((a, b) => b[1] - a[1]);
  if (!order.length) return "none ended";
  return element(
    "span",
    {},
    ...order.flatMap(([term, episodes], place) => [place ? ", " : "", nameOf(term), ` ${quantity(episodes)}`]),
  );
}

function scoreTable(members) {
  const head = [
    ...["run", "checkpoint", "iteration", "steps", "saved at", "successes", "success (95 %)", "proof"],
    ...["training", "evaluation", "peak memory", "training episodes ended by"],
  ];
  const body = element("tbody");
  for (const run of members.slice(0, 40)) {
    for (const s of run.scores) {
      body.append(
        element(
          "tr",
          {},
          ...[
            nameOf(run.run_id),
            nameOf(s.path),
            s.iteration,
            quantity(s.env_steps),
            duration(s.wall_s),
            `${s.heldout_successes}/${s.heldout_episodes}`,
            `${percent(s.heldout_successes / s.heldout_episodes)} [${(100 * s.low).toFixed(1)}, ${(100 * s.high).toFixed(1)}]`,
            s.proof_successes === null ? MISSING : `${s.proof_successes}/${s.proof_episodes}${s.proven ? " ★ target reached" : ""}`,
            duration(s.train_s),
            duration(s.evaluate_s),
            peakMemory(s.peak_gpu_memory_gb, s.peak_host_memory_gb),
            endingsInWords(s.endings),
          ].map((cell) => element("td", {}, cell)),
        ),
      );
    }
  }
  const more = members.length > 40 ? ` (the first 40 of ${members.length} runs)` : "";
  return element(
    "details",
    { class: "long" },
    element("summary", {}, `Every score as a table${more}`),
    wideTable(
      "Scores",
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...head.map((h) => element("th", { scope: "col" }, h)))),
        body,
      ),
    ),
  );
}
