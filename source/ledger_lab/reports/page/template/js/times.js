// The share of each cohort that reached the target over time, as Kaplan and Meier estimate it.

/** Finds the summary of a cohort under a yardstick; -1 if there is none. */
const cohortPlace = (cohort, yardstick) =>
  model.cohorts.findIndex((c) => c.cohort === cohort && c.measured_by === yardstick.fields);

function drawTimeCurves(node, yardstick, groups, longest) {
  const data = [],
    key = [],
    places = [];
  groups.forEach(([cohort], row) => {
    const place = cohortPlace(cohort, yardstick);
    const curve = model.time_curves[place];
    if (!curve) return;
    places.push(place);
    const colour = hue(row);
    const x = [0, ...curve.t],
      y = [0, ...curve.share.map((share) => 100 * share)];
    const ends = (from) => ["–", ...from.map((end) => (100 * end).toFixed(0))];
    const [low, high] = [ends(curve.low), ends(curve.high)];
    data.push({
      type: "scatter",
      mode: "lines",
      x,
      y,
      line: { shape: "hv", color: colour, dash: DASHES[Math.floor(row / HUES.length) % DASHES.length], width: 1.8 },
      customdata: x.map((t, i) => [plain(cohort), duration(t), low[i], high[i]]),
      hovertemplate:
        "%{customdata[0]}<br>%{y:.0f} % by %{customdata[1]}, 95 % [%{customdata[2]}, %{customdata[3]}]<extra></extra>",
    });
    const missed = model.cohorts[place].times.filter((run) => run.to_target_s === null).map((run) => run.wall_s);
    const reachedBy = (t) => y[x.findLastIndex((each) => each <= t)];
    data.push({
      type: "scatter",
      mode: "markers",
      x: missed,
      y: missed.map(reachedBy),
      cliponaxis: false,
      marker: { size: 9, symbol: "line-ns-open", color: colour, line: { width: 2, color: colour } },
      customdata: missed.map((t) => [plain(cohort), duration(t)]),
      hovertemplate: "%{customdata[0]}<br>a run ended short of the target at %{customdata[1]}<extra></extra>",
    });
    key.push({ sign: "▬", colour, text: cohort });
  });
  if (!data.length) return;
  plot(node, {
    title: `Share of runs that reached the target: ${yardstick.task}, panel ${yardstick.panel}`,
    height: 260,
    data,
    key,
    label: `Share of runs that reached the target over time, of ${counted(places.length, "cohort")}`,
    layout: {
      xaxis: axis(`wall-clock time ${timeUnit(longest)}`, { range: [0, longest * 1.06], ...timeTicks(longest) }),
      yaxis: axis(narrow() ? "reached [%]" : "runs that reached the target [%]", { range: [0, 102] }),
    },
  });
  const test = model.log_rank_tests.find((each) => places.includes(each.a) && places.includes(each.b));
  if (test) {
    const [a, b] = [test.a, test.b].map((place) => nameOf(model.cohorts[place].cohort));
    const p = Number(test.p_value.toPrecision(2));
    node.append(element("p", { class: "note" }, "Log-rank test of ", a, " against ", b, `: p = ${p}, by permutation.`));
  }
}
