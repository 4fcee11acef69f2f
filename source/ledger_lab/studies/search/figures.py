"""Figures of searches: of a race, or of a population."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ledger_lab.reports.figures.drawing import INK, SOFT, Drawing
from ledger_lab.reports.figures.look import (
    head,
    hue,
    key_of_marks,
    logarithmic,
    mark,
    run_mark,
    shown,
    time_unit,
)
from ledger_lab.studies.search.population import by_generation, lineage, score
from ledger_lab.studies.search.result import SearchResult
from ledger_lab.studies.search.trials import STOCK, Outcome, Trial, generation_of
from ledger_lab.units import quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ENDED = "ended without the target"
"""Label of the marks of trainings without the target."""


def draw_search(result: SearchResult) -> list[Drawing]:
    """Draw a search.

    Args:
        result: The search.

    Returns:
        The figures. Those for which there is nothing to draw are left out.
    """
    drawings = []
    if result.declaration.is_race and result.ended:
        drawings.append(_race(result))
    elif result.trials and not result.declaration.is_race:
        drawings.append(_population(result))
    return drawings


def _scale(result: SearchResult, bills: list[float]) -> tuple[float, str, Callable[[float], str]]:
    """Return the divisor of an axis of bills, its unit, and the function that writes its ticks."""
    if result.declaration.file.objective == "cost":
        return 1.0, "USD", lambda value: f"${quantity(value)}"
    seconds, symbol = time_unit(max(bills))
    return seconds, symbol, lambda value: f"{value:.3g}"


def _race(result: SearchResult) -> Drawing:
    """Draw the bill of each training of the race over what had been spent by its end, and the best trial so far."""
    declaration = result.declaration
    goal = declaration.file.objective
    title = f"{shown(declaration.name)}: {goal} of each training over the spend of the race"

    def paint(canvas: Figure) -> None:
        axes = canvas.subplots()
        bills = [result.bill(each.run) for each in result.ended]
        divisor, symbol, words = _scale(result, bills)
        for each, bill in zip(result.ended, bills, strict=True):
            kind = 0 if each.trial == STOCK else 1
            run_mark(
                axes, each.spent, bill / divisor, f"{each.trial}-{each.run.seed}",
                colour=hue(kind), shape=mark(kind), missed=each.run.outcome is not Outcome.REACHED,
                crowded=len(bills) > 150,
            )  # fmt: skip
        ends = [step.spent for step in result.steps] + [result.ended[-1].spent]
        bests = [step.charge / divisor for step in result.steps]
        if bests:
            axes.step(ends, [*bests, bests[-1]], where="post", color=INK, linewidth=1.4, zorder=5)
        logarithmic(axes, "y", [bill / divisor for bill in bills], f"{goal} to the target [{symbol}]", words)
        axes.set_xlabel(f"spend of the race [{declaration.unit}]")
        axes.set_xlim(left=0)
        handles = [
            key_of_marks(colour=hue(0), shape=mark(0), label="stock recipe"),
            key_of_marks(colour=hue(1), shape=mark(1), label="other trials"),
            key_of_marks(colour=SOFT, shape="o", label=_ENDED, missed=True),
            key_of_marks(colour=INK, shape="", label="best trial so far: mean", line="-"),
        ]
        head(canvas, title, handles, columns=2)

    return Drawing(
        name=f"{declaration.cohort_stem}-race",
        title=title,
        description=f"{title}. {len(result.ended)} trainings; the best trial so far changes {len(result.steps)} times",
        paint=paint,
    )


def _population(result: SearchResult) -> Drawing:
    """Draw the held-out success of each member by generation, who copied whom, and the lineage of the best member."""
    declaration = result.declaration
    title = f"{shown(declaration.name)}: held-out success of the members by generation"
    found = {trial.number: trial for trial in result.trials}
    best = set() if result.best is None else {trial.number for trial in lineage(result.trials, result.best)}

    def position(trial: Trial) -> tuple[float, float]:
        return generation_of(declaration, trial.number), 100 * (score(trial) or 0.0)

    def paint(canvas: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = canvas.subplots()
        for trial in found.values():
            if trial.parent is not None:
                ends = zip(position(found[trial.parent]), position(trial), strict=True)
                bold = trial.number in best
                colour, width = (INK, 1.6) if bold else (SOFT, 0.7)
                axes.plot(*ends, color=colour, linewidth=width, zorder=5 if bold else 1)
        for trial in found.values():
            failed = score(trial) is None
            run_mark(
                axes, *position(trial), f"t{trial.number}", colour=hue(0), shape=mark(0),
                missed=failed, crowded=len(found) > 150,
            )  # fmt: skip
        axes.set_xlabel("generation")
        axes.set_ylabel("held-out success of the last policy [%]")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles = [
            key_of_marks(colour=hue(0), shape=mark(0), label="member"),
            key_of_marks(colour=SOFT, shape="o", label="without a policy to go on with", missed=True),
            key_of_marks(colour=INK, shape="", label="lineage of the best member", line="-"),
        ]
        head(canvas, title, handles)

    generations = len(by_generation(declaration, result.trials))
    return Drawing(
        name=f"{declaration.cohort_stem}-population",
        title=title,
        description=f"{title}. {declaration.members} members, {generations} generations",
        paint=paint,
    )
