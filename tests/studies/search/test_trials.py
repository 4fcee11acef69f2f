"""Which runs of a ledger are trainings of a search, and how they stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.search_races import declared
from ledger_lab.errors import UserError
from ledger_lab.ledger.rows import Status
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.trials import (
    MOST_ATTEMPTS,
    Outcome,
    Place,
    Record,
    SeedRun,
    cohort_of,
    gather,
    outcome_of,
    place_of,
    trial_of,
)

DECLARATION = declared(1.0)
VALUES: Values = {"learning_rate": 1e-3, "clip": 0.2, "schedule": "fixed"}
RUN = SeedRun(seed=1, outcome=Outcome.REACHED, wall_s=1.0, usd=None, cap_s=None, started_s=0.0)


@pytest.mark.parametrize("place", [Place(0), Place(12), Place(3, repeat=2), Place(4, sealed=True), Place(12345)])
def test_a_cohort_names_its_place(place: Place) -> None:
    assert place_of(DECLARATION, cohort_of(DECLARATION, place)) == place


def test_a_cohort_of_a_population_names_generation_and_member() -> None:
    population = declared(1.0, "population")
    place = Place(trial_of(population, 3, 2))
    assert cohort_of(population, place) == f"{population.cohort_stem}-g03-m02"
    for each in (place, replace(place, sealed=True), Place(0, sealed=True), Place(trial_of(population, 120, 8))):
        assert place_of(population, cohort_of(population, each)) == each
    for cohort in ("t0018", "g03-m09", "g3-m02", "g00-m01"):
        assert place_of(population, f"{population.cohort_stem}-{cohort}") is None


def test_foreign_cohorts_have_no_place() -> None:
    stem = DECLARATION.cohort_stem
    for cohort in (
        None,
        "",
        stem,
        f"{stem}-t1",
        f"{stem}-t0001-r0",
        f"{stem}-t0001-x",
        f"{stem}-t00001",
        f"x{stem}-t0001",
    ):
        assert place_of(DECLARATION, cohort) is None
    assert place_of(declared(2.0), cohort_of(DECLARATION, Place(1))) is None


def test_interruptions_continue_until_they_hang() -> None:
    for status in (Status.PREEMPTED, Status.INTERRUPTED, Status.KILLED, Status.LOST, Status.DISK_FULL):
        assert outcome_of(status, 1) is Outcome.INTERRUPTED
        assert outcome_of(status, MOST_ATTEMPTS) is Outcome.HUNG
    assert outcome_of(Status.TARGET_REACHED, 9) is Outcome.REACHED
    assert outcome_of(Status.COMPLETED, 1) is Outcome.MISSED
    assert outcome_of(Status.CRASHED, 1) is Outcome.CRASHED
    assert outcome_of(Status.RUNNING, 9) is Outcome.RUNNING


def test_a_capped_run_counts_as_its_cap() -> None:
    assert replace(RUN, outcome=Outcome.CRASHED, cap_s=50.0).charged_s == 50
    assert replace(RUN, cap_s=50.0).charged_s == 1


def test_trainings_are_gathered_in_any_order() -> None:
    records = [
        Record(Place(0), {}, RUN),
        Record(Place(2), VALUES, RUN),
        Record(Place(2), VALUES, replace(RUN, seed=2)),
        Record(Place(2, sealed=True), VALUES, replace(RUN, seed=100, sealed=True)),
        Record(Place(0, repeat=1), {}, replace(RUN, repeat=1)),
    ]
    trials = gather(DECLARATION, records)
    assert trials == gather(DECLARATION, records[::-1])
    assert [(trial.number, len(trial.runs), sorted(trial.raced())) for trial in trials] == [(0, 2, [1]), (2, 3, [1, 2])]


@pytest.mark.parametrize(
    ("place", "values", "run", "message"),
    [
        (Place(0), VALUES, RUN, "is changed"),
        (Place(1), {**VALUES, "clip": 9.0}, RUN, "clip 9.0 is outside the space"),
        (Place(2), {**VALUES, "clip": 0.3}, RUN, "different values"),
        (Place(2), VALUES, RUN, "trained twice"),
        (Place(2), VALUES, replace(RUN, seed=100), "seed 100 is sealed"),
        (Place(2, sealed=True), VALUES, replace(RUN, seed=2, sealed=True), "seed 2 is not sealed"),
        (Place(2), VALUES, replace(RUN, seed=9), "seed 9 is none of its seeds"),
    ],
)
def test_what_a_search_did_not_start_is_told(place: Place, values: dict, run: SeedRun, message: str) -> None:
    with pytest.raises(UserError, match=message):
        gather(DECLARATION, [Record(Place(2), VALUES, RUN), Record(place, values, run)])


@pytest.mark.parametrize(
    ("place", "seed", "parent", "message"),
    [
        (Place(9), 1, None, "did not begin with a policy of generation 1"),
        (Place(17), 1, 1, "did not begin with a policy of generation 2"),
        (Place(9), 1, 2, "began with a policy of trial 2, whose run is missing"),
        (Place(2), 2, 1, "did not begin with random networks"),
        (Place(9), 2, 1, "seed 2 is none of its seeds"),
        (Place(0), 1, None, "seed 1 is none of its seeds"),
    ],
)
def test_a_member_begins_with_a_policy_of_the_generation_before(
    place: Place, seed: int, parent: int | None, message: str
) -> None:
    first = Record(Place(1), VALUES, RUN)
    other = Record(place, VALUES if place.trial else {}, replace(RUN, seed=seed), parent)
    with pytest.raises(UserError, match=message):
        gather(declared(1.0, "population"), [first, other])
