"""Populations are decided by the ledger alone, replace their worst members by better ones, and find schedules."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.search_races import LANDSCAPES, declared, play, with_run
from ledger_lab.errors import UserError
from ledger_lab.studies.search.chains import chain_of
from ledger_lab.studies.search.decisions import Decision, End, Situation, Start, Wait
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.ending import decide_next
from ledger_lab.studies.search.population import decide_population, lineage, ranked_members
from ledger_lab.studies.search.result import summarize_search
from ledger_lab.studies.search.space import Parameter, Space
from ledger_lab.studies.search.trials import Outcome, Place, SearchTraining, SeedRun, Trial, member_of, trial_of

DECLARATION = declared(1.0, "population")
MEMBERS = DECLARATION.members
STEEP = LANDSCAPES["steep"]


def decide(trials: Sequence[Trial], declaration: SearchDeclaration = DECLARATION) -> Decision:
    return decide_population(Situation.of(declaration, trials))


def run(seed: int, success: float | None = None, outcome: Outcome = Outcome.MISSED, **others: object) -> SeedRun:
    known = {"usd": None, "cap_s": None, "started_s": 0.0, "wall_s": 20.0, **others}
    return SeedRun(seed=seed, outcome=outcome, success=success, **known)  # type: ignore[arg-type]


def trained(member_run: Callable[[int], SeedRun], trials: Sequence[Trial] = (), members: int = MEMBERS) -> list[Trial]:
    """Train one generation of members, as decided; each ends as the function says."""
    known = list(trials)
    for _ in range(members):
        start = decide(known)
        assert isinstance(start, Start)
        known = with_run(known, start, member_run(member_of(DECLARATION, start.place.trial)))
    return known


def by_success(member: int) -> SeedRun:
    """The success rises with the number of the member."""
    return run(member, member / 10)


def next_generation(trials: Sequence[Trial]) -> list[Start]:
    """Return how all members of the next generation start."""
    known, starts = list(trials), []
    for _ in range(MEMBERS):
        start = decide(known)
        assert isinstance(start, Start)
        starts.append(start)
        known = with_run(known, start, run(start.seed, outcome=Outcome.RUNNING))
    return starts


def test_the_first_generation_begins_with_random_networks_and_values() -> None:
    starts = next_generation([])
    assert [start.place.trial for start in starts] == [*range(1, MEMBERS + 1)]
    assert [start.seed for start in starts] == list(DECLARATION.search_seeds)
    assert {start.iterations for start in starts} == {DECLARATION.iterations}
    assert {start.begins_with for start in starts} == {None}
    assert len({str(start.values) for start in starts}) == MEMBERS
    assert all(DECLARATION.space.check(start.values) is None for start in starts)
    assert starts[0].cap_s == pytest.approx(3600 / MEMBERS)


def test_the_worst_members_are_replaced_by_changed_copies_of_the_best() -> None:
    first = trained(by_success)
    starts = next_generation(first)
    values = {member_of(DECLARATION, trial.number): trial.values for trial in first}
    parents = [member_of(DECLARATION, start.begins_with.place.trial) for start in starts if start.begins_with]
    assert parents[2:] == [3, 4, 5, 6, 7, 8], "the others go on with their own policies"
    assert set(parents[:2]) <= {7, 8}, "a quarter of the members is replaced"
    for member, start in enumerate(starts, start=1):
        assert (start.values == values[member]) is (member > 2)
        assert DECLARATION.space.check(start.values) is None
    for start, parent in zip(starts, parents, strict=True):
        seed = DECLARATION.search_seeds[parent - 1]
        assert start.begins_with == SearchTraining(Place(trial_of(DECLARATION, 1, parent)), seed)


def test_a_generation_begins_when_the_one_before_has_ended() -> None:
    trials = trained(by_success, members=MEMBERS - 1)
    start = decide(trials)
    assert isinstance(start, Start)
    waiting = decide(with_run(trials, start, run(start.seed, outcome=Outcome.RUNNING)))
    assert isinstance(waiting, Wait) and "generation 1 has not ended" in waiting.reason


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.HUNG, Outcome.CAPPED])
def test_members_without_a_policy_are_replaced_however_many_they_are(outcome: Outcome) -> None:
    first = trained(lambda member: by_success(member) if member in (1, 5) else run(member, outcome=outcome))
    starts = next_generation(first)
    parents = [member_of(DECLARATION, start.begins_with.place.trial) for start in starts if start.begins_with]
    assert set(parents) == {1, 5}
    assert parents[0] == 1 and parents[4] == 5


def test_a_policy_that_no_run_can_begin_with_is_not_copied() -> None:
    first = trained(lambda member: by_success(member) if member != 8 else run(member, None))
    starts = next_generation(first)
    assert all(start.begins_with and start.begins_with.place.trial != 8 for start in starts)


def test_without_any_policy_the_population_ends() -> None:
    end = decide(trained(lambda member: run(member, outcome=Outcome.CRASHED)))
    assert isinstance(end, End) and "no member of generation 1 trained its stage to the end" in end.reason


def test_equal_members_are_not_replaced() -> None:
    first = trained(lambda member: run(member, 0.5))
    for start in next_generation(first):
        assert start.begins_with is not None and start.begins_with.seed == start.seed


def test_returns_only_count_while_nobody_succeeds() -> None:
    first = trained(lambda member: run(member, 0.0, mean_return=float(member)))
    assert [trial.number for trial, _ in ranked_members(DECLARATION, first)] == [8, 7, 6, 5, 4, 3, 2, 1]
    succeeding = trained(lambda member: run(member, 0.1 if member == 1 else 0.0, mean_return=float(member)))
    assert [trial.number for trial, _ in ranked_members(DECLARATION, succeeding)] == [1, 2, 3, 4, 5, 6, 7, 8]
    rewards = Space(parameters=(Parameter(name="env.rewards.alive.weight", low=0.1, high=1.0),))
    other = replace(DECLARATION, space=rewards)
    assert [trial.number for trial, _ in ranked_members(other, first)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_an_interrupted_stage_goes_on_with_its_own_parent() -> None:
    first = trained(by_success)
    start = decide(first)
    assert isinstance(start, Start)
    half = with_run(first, start, run(start.seed, outcome=Outcome.INTERRUPTED, cap_s=start.cap_s))
    assert decide(half) == replace(start, resumes=True)


def test_a_member_that_reaches_the_target_ends_the_population() -> None:
    trials = trained(lambda member: run(member, 0.95, outcome=Outcome.REACHED), members=1)
    assert isinstance(decide(trials), End)
    under_way = Trial(number=2, values=trials[0].values, runs=(run(2, outcome=Outcome.RUNNING),))
    assert isinstance(decide([*trials, under_way]), Wait)
    interrupted = replace(under_way, runs=(run(2, outcome=Outcome.INTERRUPTED),))
    assert isinstance(decide([*trials, interrupted]), End), "what can't matter any more is not resumed"


def test_the_budget_buys_whole_generations() -> None:
    first = trained(by_success)
    bought = 2 * MEMBERS * 20 / 3600
    assert isinstance(decide(first, replace(DECLARATION, budget_h=bought + 0.001)), Start)
    end = decide(first, replace(DECLARATION, budget_h=bought - 0.001))
    assert isinstance(end, End) and "does not buy another generation" in end.reason


def test_a_refused_draw_is_followed_by_another() -> None:
    first = decide([])
    assert isinstance(first, Start)
    second = decide_population(
        Situation.of(DECLARATION, [], refuses=lambda values: "no" if values == first.values else None)
    )
    assert isinstance(second, Start) and second.values != first.values
    with pytest.raises(UserError, match=r"none of 200 proposals can be trained with \(no\)"):
        decide_population(Situation.of(DECLARATION, [], refuses=lambda _: "no"))


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**20))
def test_the_same_ledger_gives_the_same_decisions(number: int) -> None:
    declaration, landscape = declared(1.0, "population", number), replace(STEEP, number=number)
    trials, starts = play(declaration, landscape, decide_next)
    assert len({(each.place, each.seed) for each in starts}) == len(starts)
    spent_s = sum(each.wall_s for trial in trials for each in trial.runs if not each.sealed)
    assert spent_s <= 3600
    shuffle = random.Random(number)
    runs = {(trial.number, each.seed): each for trial in trials for each in trial.runs}
    again: list[Trial] = []
    for start in starts:
        mixed = [replace(each, runs=tuple(shuffle.sample(each.runs, len(each.runs)))) for each in again]
        assert decide_next(Situation.of(declaration, shuffle.sample(mixed, len(mixed)))) == start
        again = with_run(again, start, runs[start.place.trial, start.seed])
    assert isinstance(decide_next(Situation.of(declaration, again)), End)


def test_equal_stages_are_one_training_of_the_schedule() -> None:
    rate = [{"learning_rate": each, "clip": 0.2, "schedule": "fixed"} for each in (1e-3, 5e-4)]
    numbers = [trial_of(DECLARATION, generation, member) for generation, member in ((1, 4), (2, 4), (3, 1), (4, 1))]
    values = [rate[0], rate[0], rate[1], rate[1]]
    parents = [None, *numbers]
    trials = [
        Trial(number=number, values=each, parent=parent)
        for number, each, parent in zip(numbers, values, parents, strict=False)
    ]
    chain = chain_of(DECLARATION, trials, trials[-1])
    assert [(link.trial, link.values, link.iterations) for link in chain] == [
        (numbers[1], rate[0], 2 * (DECLARATION.iterations or 0)),
        (numbers[3], rate[1], None),
    ]
    assert lineage(trials, trials[-1]) == trials


def test_a_schedule_is_replayed_as_chains_on_the_sealed_seeds() -> None:
    declaration, landscape = declared(3.0, "population", 8), replace(LANDSCAPES["moving"], number=8)
    trials, starts = play(declaration, landscape, decide_next)
    result = summarize_search(Situation.of(declaration, trials))
    (number,) = result.finalists
    chain = result.chain(number)
    assert len(chain) > 1
    sealed = [start for start in starts if start.place.sealed]
    for seed in declaration.sealed_seeds:
        own = [start for start in sealed if start.seed == seed]
        assert own[0].place == Place(0, sealed=True) and own[0].cap_s is None and own[0].begins_with is None
        links = own[1:]
        assert [start.place.trial for start in links] == [link.trial for link in chain][: len(links)]
        before = [None, *(SearchTraining(start.place, seed) for start in links)]
        assert [start.begins_with for start in links] == before[: len(links)]
        runs = [result.trial(start.place.trial).sealed(seed) for start in links]
        assert result.sealed[number][seed].bill == pytest.approx(sum(each.wall_s for each in runs if each is not None))
        assert {start.cap_s for start in own} == {None}
    assert result.bill == pytest.approx(sum(each.wall_s for trial in trials for each in trial.runs))
    assert result.winner is not None and result.winner.trial == number


def test_a_chain_ends_with_a_training_that_crashes_or_has_no_score() -> None:
    declaration, landscape = declared(3.0, "population", 1), replace(LANDSCAPES["moving"], number=1)
    trials, _ = play(declaration, landscape, decide_population)
    stock = Trial(number=0, values={}, runs=(run(100, outcome=Outcome.REACHED, wall_s=300.0, sealed=True),))
    first = decide_next(Situation.of(declaration, [stock, *trials]))
    assert isinstance(first, Start) and first.place.trial != 0
    for ended in (
        run(100, outcome=Outcome.CRASHED, sealed=True),
        run(100, None, sealed=True),
    ):
        known = with_run([stock, *trials], first, ended)
        after = decide_next(Situation.of(declaration, known))
        assert isinstance(after, Start) and (after.place, after.seed) == (Place(0, sealed=True), 101)
        result = summarize_search(Situation.of(declaration, known))
        assert [each.reached for each in result.sealed[result.finalists[0]].values()] == [False]
        assert not result.comparisons
