"""Prints the scores of ``scripts/evaluate.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from ledger_lab.ledger import Outcomes, PanelResult
from ledger_lab.ledger.costs.few_runs import lower_bound
from ledger_lab.panels import Comparison, Panel, compare_paired, few_differences, wilson_interval
from ledger_lab.reports.columns import Shown, TableCell
from ledger_lab.reports.terminal_table import table_lines
from ledger_lab.training.evaluation.plan import EvaluationPlan
from ledger_lab.training.evaluation.score import Simulation
from ledger_lab.units import share_within, target_share


def show_scores(plan: EvaluationPlan, scores: Sequence[Sequence[PanelResult]], console: Console) -> None:
    """Print the score of every checkpoint in every cell, and the differences that were asked for.

    Args:
        plan: The evaluation.
        scores: Per simulation, one result per checkpoint.
        console: Where to print.
    """
    for line in _header(plan, [results[0].exactness for results in scores]):
        console.print(line, markup=False, soft_wrap=True)
    console.print(*table_lines(_COLUMNS, list(_rows(plan, scores)), console.width), sep="\n")
    for line in _invalid(scores):
        console.print(line, style="red", markup=False, soft_wrap=True)
    for line in (*_worst_cells(plan, scores), *_transfers(plan, scores), *_comparisons(plan, scores)):
        console.print(line, markup=False, soft_wrap=True)


@dataclass(frozen=True)
class _Line:
    """A share of successes with its interval."""

    name: str
    """Name of the cell; empty for all cells together."""
    successes: int
    episodes: int
    interval: tuple[float, float]
    ends: str
    bounded: bool
    """Whether the one-sided 95 % lower bound reaches the target."""

    @property
    def share(self) -> float:
        """Successes ÷ episodes."""
        return self.successes / self.episodes

    def __str__(self) -> str:
        """Return the share and its interval in a few words."""
        return share_within(self.share, self.interval)


def _header(plan: EvaluationPlan, exactness: Sequence[str]) -> Iterator[str]:
    """Yield lines on the panel, on how exactly scores repeat, and on the meaning of the mark."""
    panel, declared = plan.panel, plan.simulations[0]
    ids = [f"{each.identity.id[:11]}…, {how}" for each, how in zip(plan.simulations, exactness, strict=True)]
    count, several = len(panel.cells), len(panel.cells) > 1
    if panel.fresh:
        cells = f" in {count} cells" if several else ""
        episodes = f"{len(panel.episodes)} fresh episodes{cells}, the same for both checkpoints"
    else:
        episodes = f"{len(panel.seeds)} seeds{f' × {count} cells' if several else ''}"
    target = target_share(panel.target_success)
    yield (
        f"panel {panel.name} ({ids[0]}) · {episodes} · “bound ≥ {target}”: the one-sided 95 % lower "
        "bound of this single score reaches the target; this can happen by chance, and is no proof"
    )
    for other, known_as in zip(plan.simulations[1:], ids[1:], strict=True):
        differences = few_differences(other.identity.fields, declared.identity.fields)
        yield f"with {other.name} ({known_as}): {differences}"


@dataclass(frozen=True)
class _Row:
    """A row of the table: a cell of a simulation, with the checkpoint in the first of its rows."""

    run: str
    checkpoint: str
    iteration: str
    cell: str | None
    """``None`` if there is only one."""
    line: _Line
    mark: TableCell


_COLUMNS: Mapping[str, Shown] = {
    "run": Shown("run", "", lambda row: row.run, align="left"),
    "checkpoint": Shown("checkpoint", "", lambda row: row.checkpoint, align="left"),
    "cell": Shown("cell", "", lambda row: row.cell, align="left", if_measured=True),
    "success": Shown("success (95 %)", "", lambda row: str(row.line), align="left"),
    "mark": Shown("", "", lambda row: row.mark, align="left"),
    "successes": Shown("successes", "", lambda row: f"{row.line.successes}/{row.line.episodes}"),
    "iteration": Shown("iteration", "", lambda row: row.iteration),
    "ends": Shown("ended by", "", lambda row: row.line.ends, align="left"),
}


def _rows(plan: EvaluationPlan, scores: Sequence[Sequence[PanelResult]]) -> Iterator[_Row]:
    """Yield the rows of every checkpoint: its cells in the order of the panel, simulation by simulation."""
    named = len(plan.panel.cells) > 1 or len(plan.simulations) > 1
    bounded = TableCell(f"bound ≥ {target_share(plan.panel.target_success)}", style="good")
    for place, candidate in enumerate(plan.candidates):
        labels = (candidate.run_id, candidate.saved.path, str(candidate.saved.iteration))
        for simulation, results in zip(plan.simulations, scores, strict=True):
            for line in _lines(plan.panel, results[place].outcomes):
                mark = TableCell("invalid", style="bad") if results[place].invalid else TableCell("")
                cell = _cell_name(plan, simulation, line) if named else None
                yield _Row(*labels, cell, line, bounded if line.bounded and not results[place].invalid else mark)
                labels = ("", "", "")


def _lines(panel: Panel, outcomes: Outcomes) -> list[_Line]:
    """Return a line per cell, and a line for all cells together if there are several."""
    cells = [_line(panel, outcomes, cell.name, [cell.name == name for name in outcomes.cell]) for cell in panel.cells]
    if len(cells) == 1:
        return cells
    # Episodes with the same seed are not independent. The mean of a seed's cells varies at most as much as a single
    # episode with the same expectation (Bhatia & Davis 2000, Am. Math. Mon. 107:353), so each seed counts as one trial.
    # If every cell reaches the target, so does their mean (intersection-union test; Berger 1982).
    whole = _line(panel, outcomes, "", [True] * outcomes.episodes)
    interval = wilson_interval(whole.share * len(panel.seeds), len(panel.seeds))
    return [*cells, replace(whole, interval=interval, bounded=all(cell.bounded for cell in cells))]


def _line(panel: Panel, outcomes: Outcomes, name: str, chosen: Sequence[bool]) -> _Line:
    """Count some of the episodes, which are treated as independent."""
    successes = sum(ok for ok, here in zip(outcomes.success, chosen, strict=True) if here)
    ends = Counter(end for end, here in zip(outcomes.ended_by, chosen, strict=True) if here)
    episodes = sum(chosen)
    return _Line(
        name,
        successes,
        episodes,
        wilson_interval(successes, episodes),
        " · ".join(f"{end} {count}" for end, count in ends.most_common()),
        lower_bound(successes, episodes) >= panel.target_success,
    )


def _cell_name(plan: EvaluationPlan, simulation: Simulation, line: _Line) -> str:
    """Name a cell of a simulation. If the panel has a single cell, the name of another simulation is enough."""
    cell = "" if simulation.name and len(plan.panel.cells) == 1 else line.name or "overall"
    return " · ".join(part for part in (simulation.name, cell) if part)


def _invalid(scores: Sequence[Sequence[PanelResult]]) -> list[str]:
    """Return each reason why scores are invalid, once."""
    reasons = [result.invalid for results in scores for result in results if result.invalid]
    return [f"invalid, and compared with nothing: {reason}" for reason in dict.fromkeys(reasons)]


def _worst_cells(plan: EvaluationPlan, scores: Sequence[Sequence[PanelResult]]) -> Iterator[str]:
    """Yield the worst cell of each checkpoint, if there are several cells."""
    if len(plan.panel.cells) == len(plan.simulations) == 1:
        return
    for label, results in zip(_labels(plan), zip(*scores, strict=True), strict=True):
        cells = [
            (line.share, f"{_cell_name(plan, simulation, line)}, {line.successes}/{line.episodes}, {line}")
            for simulation, result in zip(plan.simulations, results, strict=True)
            for line in _lines(plan.panel, result.outcomes)
            if line.name and result.invalid is None
        ]
        if cells:
            yield f"worst cell of {label}: {min(cells, key=lambda cell: cell[0])[1]}"


def _transfers(plan: EvaluationPlan, scores: Sequence[Sequence[PanelResult]]) -> Iterator[str]:
    """Yield how each checkpoint's success differs in each other simulation."""
    for simulation, results in zip(plan.simulations[1:], scores[1:], strict=True):
        for label, here, there in zip(_labels(plan), scores[0], results, strict=True):
            if here.invalid is None and there.invalid is None:
                yield f"transfer of {label} to {simulation.name}: {_difference(_compare(here, there))}, paired by seed"


def _comparisons(plan: EvaluationPlan, scores: Sequence[Sequence[PanelResult]]) -> Iterator[str]:
    """Yield the comparison of the two checkpoints in each simulation."""
    if not plan.versus:
        return
    ours, theirs = _labels(plan)
    for simulation, (one, other) in zip(plan.simulations, scores, strict=True):
        if one.invalid is None and other.invalid is None:
            found = _compare(other, one)
            yield f"{ours} versus {theirs}{f', with {simulation.name}' if simulation.name else ''}, paired by seed:"
            yield f"  {_difference(found)} · p = {found.p_text} (exact McNemar test)"
            yield f"  only {ours} succeeds in {found.only_second} of {found.episodes} episodes"
            yield f"  only {theirs} succeeds in {found.only_first} of {found.episodes} episodes"


def _labels(plan: EvaluationPlan) -> list[str]:
    """Return a name for each checkpoint."""
    return [f"{candidate.run_id}/{candidate.saved.path}" for candidate in plan.candidates]


def _compare(first: PanelResult, second: PanelResult) -> Comparison:
    """Compare two scores of the same episodes."""
    return compare_paired(first.outcomes.success, second.outcomes.success, first.outcomes.seed)


def _difference(found: Comparison) -> str:
    """Return a difference with its interval, in percentage points."""
    if not found.only_first and not found.only_second:
        return f"no difference in any of {found.episodes} episodes"
    return f"difference {found.points}"
