// The times to target of each cohort, with the runs that never got there.

const MOST_COHORTS = 30;

function drawCohorts(node) {
  const asked = new Set(shown.map((run) => run.cohort));
  // of further runs of the same training, only the cost counts
  const named = runs.filter((run) => run.cohort !== null && asked.has(run.cohort) && !run.repeated);
  if (!named.length)
    return emptyNote(node, "No run of a cohort passes the filters. train.py --cohort NAME ties runs together.");
  for (const [place, members] of groupBy(named, (run) => run.yardstick)) {
    const yardstick = model.yardsticks[place];
    const all = [...groupBy(members, (run) => run.cohort)],
      groups = all.slice(0, MOST_COHORTS);
    const longest = Math.max(1, ...members.map((run) => run.wall_to_target_s ?? run.wall_s));
    const data = groups.map(([cohort, own], row) => {
      const offset = (i) => row + (own.length > 1 ? 0.36 * (i / (own.length - 1) - 0.5) : 0);
      return {
        type: "scatter",
        mode: "markers",
        x: own.map((run) => run.wall_to_target_s ?? run.wall_s),
        y: own.map((_, i) => offset(i)),
        cliponaxis: false,
        marker: {
          size: 11,
          color: hue(row),
          symbol: own.map((run) => (run.wall_to_target_s === null ? "triangle-right-open" : SYMBOLS[row % SYMBOLS.length])),
          line: { width: own.map((run) => (run.wall_to_target_s === null ? 2 : 0)), color: hue(row) },
        },
        customdata: own.map((run) => [
          plain(run.run_id),
          run.wall_to_target_s === null
            ? `> ${duration(run.wall_s)}, ${statusWords(run.status)}`
            : duration(run.wall_to_target_s),
          run.seed,
        ]),
        hovertemplate: "%{customdata[0]}, seed %{customdata[2]}<br>%{customdata[1]}<extra></extra>",
      };
    });
    const words = groups.map(([cohort, own]) => {
      const whole = model.cohorts[cohortPlace(cohort, yardstick)];
      const missing =
        (whole?.repeated_runs ? `, ${whole.repeated_runs} repeated` : "") +
        (whole?.missing_runs ? `, ${whole.missing_runs} missing` : "");
      const elsewhere = whole && whole.runs > own.length ? `<br>${whole.runs - own.length} more not on this page` : "";
      const reached = own.filter((run) => run.wall_to_target_s !== null);
      return `${plain(cohort, narrow() ? 16 : 34)}<br>${reached.length} of ${counted(own.length, "run")}${missing}${elsewhere}`;
    });
    plot(node, {
      title: `Time to target: ${yardstick.task}, panel ${yardstick.panel}`,
      height: 72 + 58 * groups.length,
      data,
      label: `Time to target of ${counted(members.length, "run")} in ${counted(groups.length, "cohort")}`,
      layout: {
        margin: { l: 8, r: 20, t: 4, b: 44 },
        xaxis: axis(`${narrow() ? "time to target" : "wall-clock time to the proven target"} ${timeUnit(longest)}`, {
          range: [0, longest * 1.06],
          ...timeTicks(longest),
        }),
        yaxis: axis("", {
          tickvals: groups.map((_, i) => i),
          ticktext: words,
          range: [groups.length - 0.5, -0.5],
          fixedrange: true,
        }),
      },
    });
    drawTimeCurves(node, yardstick, groups, longest);
    if (all.length > groups.length)
      node.append(
        element(
          "p",
          { class: "note" },
          `The first ${groups.length} of ${all.length} cohorts: narrow the filters to see others.`,
        ),
      );
    for (const [cohort, own] of groups) {
      const times = own.map((run) =>
        run.wall_to_target_s === null ? `> ${duration(run.wall_s)}` : duration(run.wall_to_target_s),
      );
      node.append(
        element(
          "p",
          { class: "note" },
          nameOf(cohort),
          `: ${times.slice(0, 20).join(" · ")}${times.length > 20 ? ` · … (${times.length} in all)` : ""}`,
        ),
      );
    }
  }
}
