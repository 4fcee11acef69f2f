"""A search with a population goes on after it was killed, and ends with a member that reached the target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, Status, read_ledger
from ledger_lab.ledger.endings import Terminated
from tests.fakes.searches import Trainer, population_file, replace_trainings, searched, told, train


@pytest.fixture(autouse=True)
def trainings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Trainer]:
    """The next trainings; when the list is empty, trainings go as the formula says."""
    return replace_trainings(monkeypatch, tmp_path)


def runs_of(log_root: Path) -> dict[tuple[str, int], Run]:
    """Return the runs by the end of their cohort, and by seed."""
    return {((run.cohort or "").split("-", 2)[2], run.declared.seed): run for run in read_ledger(log_root).runs}


def began_from(log_root: Path) -> dict[tuple[str, int], tuple[str, int] | None]:
    """Return the place of the run whose policy each run began with, by its own place."""
    runs = runs_of(log_root)
    places = {run.run_id: place for place, run in runs.items()}
    return {place: places.get((run.declared.began_from or {}).get("run_id", "")) for place, run in runs.items()}


def decided(log_root: Path) -> dict[tuple[str, int], tuple[object, ...]]:
    """Return the recipe of each run, and the place of the policy that it began with, by its own place."""
    began = began_from(log_root)
    return {place: (run.declared.recipe, began[place]) for place, run in runs_of(log_root).items()}


def test_a_population_ends_with_a_proven_member(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, log_root = population_file(tmp_path, iterations=5), tmp_path / "logs"
    assert searched(path, log_root) == 0
    said = capfd.readouterr().out
    assert "the race has ended: member " in said and ", a copy of member" in said
    assert "nothing to compare: no member whose values never changed" in said
    found = told(path, log_root)
    assert not found["finalists"] and found["spent"] <= 0.15
    names = {trial["trial"]: (f"t{trial['trial']:04d}", trial["member"]) for trial in found["trials"]}
    assert began_from(log_root) == {names[trial["trial"]]: names.get(trial["parent"]) for trial in found["trials"]}
    before = decided(log_root)
    assert searched(path, log_root) == 0, "an ended search starts nothing"
    assert decided(log_root) == before


def test_a_member_whose_values_never_changed_is_compared(tmp_path: Path) -> None:
    path, log_root = population_file(tmp_path, iterations=500, budget_h=5), tmp_path / "logs"
    searched(path, log_root)
    (study_file,) = log_root.rglob("*-sealed.toml")
    assert "stock = []" in study_file.read_text()


def test_a_killed_search_goes_on_as_if_nothing_had_happened(tmp_path: Path, trainings: list[Trainer]) -> None:
    def killed(command: Sequence[str], longest_s: float | None) -> int:
        raise Terminated("SIGTERM")

    path, one, other = population_file(tmp_path, iterations=5), tmp_path / "one", tmp_path / "other"
    searched(path, one)
    starts = 0
    while True:
        trainings[:] = [train] * (3 + starts % 4) + [killed]
        starts += 1
        if searched(path, other) == 0:
            break
        assert starts < 50
    assert starts > 5
    assert decided(other) == decided(one)


def test_a_crashed_member_is_replaced(tmp_path: Path, trainings: list[Trainer]) -> None:
    def crashed(command: Sequence[str], longest_s: float | None) -> int:
        return train(command, longest_s, status=Status.CRASHED)

    path, log_root = population_file(tmp_path, budget_h=0.025), tmp_path / "logs"
    trainings += [train, crashed]
    searched(path, log_root)
    assert began_from(log_root)["t0006", 2] not in (None, ("t0002", 2))


def test_a_refused_member_stops_the_search(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = population_file(tmp_path), tmp_path / "logs"
    trainings += [train, lambda command, longest_s: 2]
    with pytest.raises(UserError, match="member 2 in generation 1 on seed 2 was refused"):
        searched(path, log_root)


def test_status_shows_the_population(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, log_root = population_file(tmp_path), tmp_path / "logs"
    searched(path, log_root)
    capfd.readouterr()
    searched(path, log_root, "--status")
    said = capfd.readouterr().out
    assert "population: " in said and " generations of 4 members" in said
    assert "held-out success" in said and "generation 1: member" in said and "--all shows all" in said
