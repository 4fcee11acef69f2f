"""Populations replace their worst members by changed copies of better ones, generation by generation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from benchmarks.search_races import LANDSCAPES, declared, play, with_run
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.population import decide_population, lineage, ranked_members, reached
from ledger_lab.studies.search.situation import End, Situation, Start, Wait
from ledger_lab.studies.search.store import TrialStore
from ledger_lab.studies.search.trials import STOCK, Outcome, SeedRun, Trial, member_of

DECLARATION = declared(1.0, "population")
MEMBERS = DECLARATION.members


def nothing(declaration: SearchDeclaration = DECLARATION) -> Situation:
    stock = Trial(number=STOCK, values={})
    return Situation(declaration=declaration, trials=[stock], store=TrialStore(declaration))


def run(seed: int, success: float | None = None, outcome: Outcome = Outcome.MISSED, **others: float) -> SeedRun:
    known = {"usd": None, "cap_s": None, "wall_s": 20.0, **others}
    return SeedRun(seed=seed, outcome=outcome, success=success, **known)  # type: ignore[arg-type]


def trained(member_run: Callable[[int], SeedRun], members: int = MEMBERS) -> Situation:
    """Train one generation of members, as decided; each ends as the function says."""
    known = nothing()
    for _ in range(members):
        start = decide_population(known)
        assert isinstance(start, Start)
        known = with_run(known, start, member_run(member_of(DECLARATION, start.trial)))
    return known


def by_success(member: int) -> SeedRun:
    """The success rises with the number of the member."""
    return run(member, member / 10)


def next_generation(known: Situation) -> list[Start]:
    """Return how all members of the next generation start."""
    starts = []
    for _ in range(MEMBERS):
        start = decide_population(known)
        assert isinstance(start, Start)
        starts.append(start)
        known = with_run(known, start, run(start.seed, outcome=Outcome.RUNNING))
    return starts


def parents_of(starts: list[Start]) -> list[int]:
    return [member_of(DECLARATION, start.begins_with) for start in starts if start.begins_with is not None]


def test_the_worst_members_are_replaced_by_changed_copies_of_the_best() -> None:
    first = trained(by_success)
    starts = next_generation(first)
    values = {trial.number: trial.values for trial in first.trials}
    parents = parents_of(starts)
    assert parents[2:] == [3, 4, 5, 6, 7, 8], "the others go on with their own policies"
    assert set(parents[:2]) <= {7, 8}, "a quarter of the members is replaced"
    for member, start in enumerate(starts, start=1):
        assert (start.values == values[member]) is (member > 2)


def test_a_generation_begins_when_the_one_before_has_ended() -> None:
    known = trained(by_success, members=MEMBERS - 1)
    start = decide_population(known)
    assert isinstance(start, Start)
    waiting = decide_population(with_run(known, start, run(start.seed, outcome=Outcome.RUNNING)))
    assert isinstance(waiting, Wait) and "generation 1 has not ended" in waiting.reason


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.HUNG, Outcome.CAPPED])
def test_members_without_a_policy_are_replaced_however_many_they_are(outcome: Outcome) -> None:
    first = trained(lambda member: by_success(member) if member in (1, 5) else run(member, outcome=outcome))
    parents = parents_of(next_generation(first))
    assert set(parents) == {1, 5} and parents[0] == 1 and parents[4] == 5


def test_a_policy_that_no_run_can_begin_with_is_not_copied() -> None:
    first = trained(lambda member: by_success(member) if member != 8 else run(member, None))
    assert 8 not in parents_of(next_generation(first))


def test_without_any_policy_the_population_ends() -> None:
    end = decide_population(trained(lambda member: run(member, outcome=Outcome.CRASHED)))
    assert isinstance(end, End) and "no member of generation 1 trained its stage to the end" in end.reason


def test_returns_only_count_while_nobody_succeeds() -> None:
    first = trained(lambda member: run(member, 0.0, mean_return=float(member))).trials[1:]
    assert [trial.number for trial in ranked_members(DECLARATION, first)] == [8, 7, 6, 5, 4, 3, 2, 1]
    succeeding = trained(lambda member: run(member, 0.1 if member == 1 else 0.0, mean_return=float(member))).trials[1:]
    assert [trial.number for trial in ranked_members(DECLARATION, succeeding)] == [1, 2, 3, 4, 5, 6, 7, 8]
    weight = {"env.rewards.alive.weight": {"type": "float", "low": 0.1, "high": 1.0}}
    other = msgspec.structs.replace(DECLARATION, space=weight)
    assert [trial.number for trial in ranked_members(other, first)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_an_interrupted_stage_goes_on_with_its_own_parent() -> None:
    first = trained(by_success)
    start = decide_population(first)
    assert isinstance(start, Start) and start.cap_s is not None
    half = with_run(first, start, run(start.seed, outcome=Outcome.INTERRUPTED, cap_s=start.cap_s))
    assert decide_population(half) == replace(start, resumes=True)


def test_a_member_that_reaches_the_target_ends_the_population() -> None:
    known = trained(lambda member: run(member, 0.95, outcome=Outcome.REACHED), members=1)
    assert isinstance(decide_population(known), End)
    for outcome, decision in ((Outcome.RUNNING, Wait), (Outcome.INTERRUPTED, End)):
        other = Trial(number=2, values=known.trials[1].values, runs=(run(2, outcome=outcome),))
        assert isinstance(decide_population(replace(known, trials=[*known.trials, other])), decision)


def test_the_budget_buys_whole_generations() -> None:
    first, bought = trained(by_success), 2 * MEMBERS * 20 / 3600

    def with_budget(budget_h: float) -> Situation:
        return replace(first, declaration=msgspec.structs.replace(DECLARATION, budget_h=budget_h))

    assert isinstance(decide_population(with_budget(bought + 0.001)), Start)
    end = decide_population(with_budget(bought - 0.001))
    assert isinstance(end, End) and "does not buy another generation" in end.reason


def test_a_population_stays_in_its_budget_and_its_best_member_has_a_lineage() -> None:
    known, starts = play(declared(3.0, "population", 8), replace(LANDSCAPES["steep"], number=8))
    assert known.spent <= 3.0 and len({(each.trial, each.seed) for each in starts}) == len(starts)
    best = reached(known.trials)[0]
    stages = lineage(known.trials, best)
    assert stages[0].parent is None and stages[-1] is best
