// Two runs, two cohorts or two instances side by side.

// Cohorts and instances stand here with all of their runs: a side without its failures would be a lie.

let sideOptions = [];
const sideAsked = new Map();

function fillSides() {
  const groups = (field, kind) =>
    [
      ...groupBy(
        shown.filter((run) => run[field] !== null),
        (run) => run[field],
      ).keys(),
    ]
      .map((value) => [value, runs.filter((run) => run[field] === value)])
      .map(([value, members]) => ({
        key: `${kind} ${value}`,
        kind,
        title: value,
        members,
        // of further runs of the same training, only the cost counts
        counted: kind === "cohort" ? members.filter((run) => !run.repeated) : members,
      }));
  const [cohorts, instances] = [groups("cohort", "cohort"), groups("instance", "instance")];
  sideOptions = [
    ...cohorts,
    ...instances,
    ...shown.map((run) => ({ key: `run ${run.run_id}`, kind: "run", title: run.run_id, members: [run], counted: [run] })),
  ];
  const fallback =
    cohorts.length > 1 ? [cohorts[0].key, cohorts[1].key] : shown.slice(0, 2).map((run) => `run ${run.run_id}`);
  ["side-a", "side-b"].forEach((id, place) => {
    const select = byId(id);
    select.replaceChildren();
    for (const kind of ["cohort", "instance", "run"]) {
      const own = sideOptions.map((option, value) => [option, value]).filter(([option]) => option.kind === kind);
      if (!own.length) continue;
      select.append(
        element(
          "optgroup",
          { label: `${kind}s` },
          ...own.map(([option, value]) =>
            element(
              "option",
              { value: String(value) },
              kind === "run"
                ? runTitle(option.members[0])
                : `${option.title} (${counted(option.counted.length, "run")})`,
            ),
          ),
        ),
      );
    }
    const wanted = sideOptions.findIndex((option) => option.key === sideAsked.get(id));
    const other = sideOptions.findIndex((option) => option.key === fallback[place]);
    select.value = String(wanted >= 0 ? wanted : Math.max(0, other));
    select.disabled = !sideOptions.length;
  });
}

/** Median of the measured values with their ends, or why there is none. */
function spread(values, show) {
  const measured = values.filter((value) => value !== null && value !== undefined);
  if (!measured.length) return { text: MISSING, value: null };
  const left = values.length - measured.length;
  const [low, high] = [show(Math.min(...measured)), show(Math.max(...measured))];
  const ends = low === high ? "" : ` [${low}, ${high}]`;
  return {
    text: `${show(median(measured))}${ends}${left ? `, ${left} of ${values.length} not measured` : ""}`,
    value: left ? null : median(measured),
  };
}

function timeSpread(members) {
  if (members.every((run) => run.wall_to_target_s !== null))
    return spread(
      members.map((run) => run.wall_to_target_s),
      duration,
    );
  const texts = members.map((run) =>
    run.wall_to_target_s === null ? `> ${duration(run.wall_s)}` : duration(run.wall_to_target_s),
  );
  return { text: `${texts.slice(0, 8).join(" · ")}${texts.length > 8 ? " · …" : ""}`, value: null };
}

function costEach(_, members) {
  const reached = members.filter((run) => run.target_reached).length;
  if (members.some((run) => run.billable_usd === null)) return { text: "unpriced", value: null };
  const spent = members.reduce((sum, run) => sum + run.billable_usd, 0);
  return reached
    ? { text: `${usd(spent / reached)} (${usd(spent)} ÷ ${reached})`, value: spent / reached }
    : { text: `undefined, ≥ ${usd(spent)} spent`, value: null };
}

const successOf = (members) =>
  members.length === 1 && members[0].heldout_interval
    ? {
        text: `${percent(members[0].heldout_success)} [${members[0].heldout_interval.map((end) => (100 * end).toFixed(1)).join(", ")}] · ${members[0].heldout_successes}/${members[0].heldout_episodes}`,
        value: null,
      }
    : {
        ...spread(
          members.map((run) => run.heldout_success),
          percent,
        ),
        value: null,
      };

/** A figure of a run: its median over a side. */
const medianOf = (read, show) => (members) => spread(members.map(read), show);

/** A column of the runs' table: its title, its denominator and its median over a side. */
const columnOf = (name, show) => [...model.columns[name], medianOf((run) => run[name], show), false];

const distinct = (read) => (members) => ({ text: [...new Set(members.map(read))].join(", "), value: null });
const gigabytes = (amount) => `${amount.toFixed(1)} GB`;
const energy = (kwh) =>
  kwh >= 0.9995 ? `${Number(kwh.toPrecision(3))} kWh` : `${Number((1000 * kwh).toPrecision(3))} Wh`;

const SIDE_FIGURES = [
  // title, what it is, its value of a side, whether it means the same only under the same yardstick
  ["runs", "", (m) => ({ text: String(m.length), value: null }), false],
  [
    "reached the target",
    "of the runs",
    (m) => ({ text: `${m.filter((run) => run.target_reached).length} of ${m.length}`, value: null }),
    true,
  ],
  [...model.columns.heldout_success, successOf, true],
  [...model.columns.wall_to_target_s, timeSpread, true],
  ["cost per target-reaching checkpoint", "spent by all ÷ runs that reached it", costEach, true],
  columnOf("billable_usd", usd),
  ["price", "of the instance", medianOf((run) => run.usd_per_hour, (v) => `${usd(v)}/h`), false],
  columnOf("env_steps_per_s", quantity),
  columnOf("env_steps_per_wall_s", quantity),
  ["steps/s of env.step (training)", "÷ s of simulate + manage", medianOf((run) => run.fps_step, quantity), false],
  ["peak GPU memory", "", medianOf((run) => run.peak_gpu_memory_gb, gigabytes), false],
  ["peak host memory", "", medianOf((run) => run.peak_host_memory_gb, gigabytes), false],
  columnOf("energy_kwh", energy),
  columnOf("mean_gpu_utilization", percent),
  ["library", "", distinct((run) => run.rl_library), false],
  ["device", "", distinct((run) => `${run.device}${run.machine ? ` (${run.machine})` : ""}`), false],
  ["environments", "of all processes", medianOf((run) => run.envs, quantity), false],
];

function drawSides(node) {
  fillSides();
  const [a, b] = ["side-a", "side-b"].map((id) => sideOptions[Number(byId(id).value)]);
  if (!a || !b) return emptyNote(node, "No run passes the filters.");
  const measured = (side) => side.members.map((run) => JSON.parse(run.measured_by));
  const differs = Object.keys(measured(a)[0]).filter(
    (field) => new Set([...measured(a), ...measured(b)].map((fields) => fields[field])).size > 1,
  );
  for (const field of differs) {
    const values = [a, b].map((side) => [...new Set(measured(side).map((fields) => String(fields[field])))].join(", "));
    node.append(
      element(
        "p",
        { class: "warn" },
        `Not measured by the same yardstick: ${field} is `,
        nameOf(values[0]),
        " (A) and ",
        nameOf(values[1]),
        " (B). Success, time to target and what a policy costs are put in no ratio.",
      ),
    );
  }
  const head = ["figure", `A: ${a.title}`, `B: ${b.title}`, "B ÷ A"].map((title, i) =>
    element("th", { scope: "col", class: i ? "number" : "word" }, nameOf(title)),
  );
  const body = SIDE_FIGURES.map(([title, note, read, strict]) => {
    const [left, right] = [a, b].map((side) => read(side.counted, side.members));
    const ratio =
      left.value && right.value && !(strict && differs.length)
        ? `${Number((right.value / left.value).toPrecision(2))} ×`
        : MISSING;
    return element(
      "tr",
      {},
      element("td", { class: "word title" }, element("strong", {}, title), element("small", {}, note)),
      element("td", { class: "number", "data-label": "A" }, nameOf(left.text)),
      element("td", { class: "number", "data-label": "B" }, nameOf(right.text)),
      element("td", { class: "number", "data-label": "B ÷ A" }, ratio),
    );
  });
  node.append(
    wideTable(
      "Side by side",
      element(
        "table",
        { class: "cards sides" },
        element("thead", {}, element("tr", {}, ...head)),
        element("tbody", {}, ...body),
      ),
    ),
  );
  const several = Math.max(a.members.length, b.members.length) > 1;
  if (several)
    node.append(
      element(
        "p",
        { class: "note" },
        "Where a side has several runs: median [lowest, highest]. Ratios are of medians.",
      ),
    );
  if (!differs.length) drawSideCurves(node, a, b);
  const mean = (members, phase) => members.reduce((sum, run) => sum + (run.phases[phase] ?? 0), 0) / members.length;
  const rows = [
    ["A", a],
    ["B", b],
  ]
    .map(([letter, side]) => ({
      title: `${letter}: ${side.title}`,
      wall_s: side.members.reduce((sum, run) => sum + run.wall_s, 0) / side.members.length,
      phases: Object.fromEntries(PHASES.map(([phase]) => [phase, mean(side.members, phase)])),
    }))
    .filter((row) => row.wall_s > 0);
  if (rows.length)
    phaseBars(
      node,
      rows,
      several ? "Phases, mean of each side's runs" : "Phases",
      "Phases of both sides as stacked bars",
    );
}

function drawSideCurves(node, a, b) {
  const style = new Map(),
    pair = element("div", { class: "pair" }),
    halves = [element("div"), element("div")];
  const members = [];
  [
    [b, 1],
    [a, 0],
  ].forEach(([side, place]) =>
    side.members.slice(0, 20).forEach((run) => {
      style.set(run.index, {
        colour: hue(place),
        dash: place ? "dash" : "solid",
        symbol: SYMBOLS[place],
        group: place,
      });
      members.push(run);
    }),
  );
  const block = element("div", { class: "block" });
  node.append(block);
  legend(block, [
    { sign: SIGNS[0], colour: hue(0), text: `A: ${a.title}` },
    { sign: SIGNS[1], colour: hue(1), text: `B: ${b.title} (dashed)` },
  ]);
  pair.append(...halves);
  block.append(pair);
  drawPair(...halves, model.yardsticks[members[0].yardstick], [...new Set(members)], style);
}
