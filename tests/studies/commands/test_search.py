"""A search starts what its race decides, goes on after it was killed, and ends with a study of its finalists."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from ledger_lab.clusters.programs import AskedInVainError
from ledger_lab.errors import UserError
from ledger_lab.ledger import Status, read_ledger
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.studies.commands import search as program
from ledger_lab.studies.commands.study import run_study
from ledger_lab.studies.declared import load_study
from ledger_lab.studies.search import search as starter
from ledger_lab.studies.search import view
from ledger_lab.studies.search.declaration import load_search
from ledger_lab.studies.search.trials import STOCK, cohort_of
from ledger_lab.studies.trainings import Trainings
from ledger_lab.tasks.recipes.recipe_file import read_recipe
from tests.fakes.ledgers import write_run
from tests.fakes.searches import Trainer, replace_trainings, search_file, searched, told, train


@pytest.fixture(autouse=True)
def trainings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Trainer]:
    """The next trainings; when the list is empty, trainings go as the formula says."""
    return replace_trainings(monkeypatch, tmp_path)


def stock_trained(folder: Path) -> tuple[Path, Path]:
    """Train the stock recipe of a search whose budget buys nothing else; return the file and the root of the ledger."""
    path, log_root = search_file(folder, budget_h=0.04), folder / "logs"
    with pytest.raises(UserError, match="does not buy one trial besides"):
        searched(path, log_root)
    return path, log_root


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a search file, its ledger ``logs``, and what the search printed, after the search has ended."""
    folder = tmp_path_factory.mktemp("ended")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        replace_trainings(patch, folder)
        assert searched(search_file(folder), folder / "logs") == 0
    (folder / "said.txt").write_text(said.getvalue())
    return folder


def killed(command: Sequence[str], longest_s: float | None) -> int:
    """End the search in the middle of a training."""
    raise Terminated("SIGTERM")


def decided(log_root: Path) -> list[tuple[str | None, int, object]]:
    return [(run.cohort, run.declared.seed, run.declared.recipe) for run in read_ledger(log_root).runs]


def test_a_search_ends_with_a_study_of_its_finalists(ended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, log_root = ended / "s.toml", ended / "logs"
    said = (ended / "said.txt").read_text()
    assert "the race has ended: the rest of the budget does not buy a training of up to" in said
    found = told(path, log_root)
    assert found["spent"] <= found["budget_h"] == 0.15
    assert {seed for _, seed, _ in decided(log_root)} == {1, 2}, "the race uses no sealed seed"

    (study_file,) = log_root.rglob("*-sealed.toml")
    study = load_study(str(study_file))
    best = f"t{found['finalists'][0]:04d}"
    assert study.seeds == tuple(found["sealed_seeds"]) and [arm.levels[0] for arm in study.arms][:2] == ["stock", best]
    arguments = study.arms[1].arguments
    recipe = read_recipe(Path(arguments[arguments.index("--recipe") + 1]))
    assert dict(recipe.fields) == next(each["values"] for each in found["trials"] if each["trial"] == found["best"])

    asked: list[list[str]] = []
    monkeypatch.setattr(program, "run_study", lambda argv: asked.append(argv) or 0)
    before = decided(log_root)
    assert searched(path, log_root) == 0 and decided(log_root) == before, "an ended race starts nothing"
    assert asked == [[str(study_file), "--log_root", str(log_root)]]


def test_the_study_of_the_finalists_compares_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "run_study", run_study)
    path, log_root = search_file(tmp_path, budget_h=0.08), tmp_path / "logs"
    assert searched(path, log_root) == 0
    stem = load_search(str(path)).cohort_stem
    assert f"A = {stem}-sealed-stock · B = {stem}-sealed-t0001 · n = " in capfd.readouterr().out
    assert {seed for _, seed, _ in decided(log_root)} == {1, 2, *range(11, 21)}


def test_a_killed_search_goes_on_as_if_nothing_had_happened(
    ended: Path, tmp_path: Path, trainings: list[Trainer]
) -> None:
    path, other = search_file(tmp_path), tmp_path / "other"
    starts = 0
    while True:
        trainings[:] = [train] * (1 + starts % 3) + [killed]
        starts += 1
        if searched(path, other) == 0:
            break
        assert starts < 50
    assert starts > 5
    assert decided(other) == decided(ended / "logs")


def test_a_preempted_training_is_resumed(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [partial(train, interrupted_after_s=3.0), train, train, killed]
    assert searched(path, log_root) == EXIT_REQUEUE
    runs = [run for run in read_ledger(log_root).runs if (run.cohort or "").endswith("t0000")]
    assert [len(run.attempts) for run in runs] == [2, 1]


def test_a_training_without_a_state_starts_again_and_all_of_its_time_counts(
    tmp_path: Path, trainings: list[Trainer]
) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [train, train, partial(train, interrupted_after_s=5.0, state=False), train, killed]
    assert searched(path, log_root) == EXIT_REQUEUE
    runs = sorted(read_ledger(log_root).runs, key=lambda run: run.declared_at)
    first, second = (run for run in runs if (run.cohort or "").endswith("t0001") and run.declared.seed == 1)
    limits = [(run.declared.request or {})["limit_s"] for run in (first, second)]
    assert limits[1] == pytest.approx(limits[0] - 5.0)
    (run,) = (run for run in told(path, log_root)["trials"][1]["runs"] if run["seed"] == 1)
    assert run["cap_s"] == pytest.approx(limits[0])
    assert run["wall_s"] > 5.0


def test_an_interrupted_training_that_has_used_up_its_time_is_capped(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [train, train, partial(train, status=Status.PREEMPTED, time_s=1e6), killed]
    assert searched(path, log_root) == EXIT_REQUEUE
    assert told(path, log_root)["trials"][1]["runs"][0]["outcome"] == "capped"


def test_a_training_that_gets_on_between_interruptions_does_not_hang(tmp_path: Path, trainings: list[Trainer]) -> None:
    trainings += [partial(train, interrupted_after_s=4.0)] * 8
    path, log_root = stock_trained(tmp_path)
    run = told(path, log_root)["trials"][0]["runs"][0]
    assert run["outcome"] == "reached" and run["wall_s"] > 8 * 4.0


def test_a_training_that_never_gets_on_hangs(tmp_path: Path, trainings: list[Trainer]) -> None:
    trainings += [partial(train, interrupted_after_s=1.0, state=False)] * 5
    with pytest.raises(UserError, match="the stock recipe hung on seed 1, so .*: move its run away to train it again"):
        searched(search_file(tmp_path), tmp_path / "logs")


def test_a_machine_on_which_every_training_fails_stops_the_search(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [train, train, *[partial(train, status=Status.CRASHED, interrupted_after_s=1.0)] * 20]
    with pytest.raises(UserError, match="10 trainings in a row had no result, and saved no state"):
        searched(path, log_root)
    assert len(trainings) == 10


def test_a_training_that_can_not_be_resumed_is_not_started_for_ever(tmp_path: Path, trainings: list[Trainer]) -> None:
    trainings += [partial(train, interrupted_after_s=1.0), *[lambda command, longest_s: 1] * 20]
    with pytest.raises(UserError, match="10 trainings in a row had no result, and saved no state"):
        searched(search_file(tmp_path), tmp_path / "logs")
    assert len(trainings) == 10


def test_a_refused_training_ends_the_search(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings.append(lambda command, longest_s: 2)
    with pytest.raises(UserError, match="the stock recipe on seed 1 was refused"):
        searched(path, log_root)


def test_a_trial_whose_values_are_refused_is_left_out_for_good(
    tmp_path: Path, trainings: list[Trainer], capfd: pytest.CaptureFixture[str]
) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [train, train, lambda command, longest_s: 2, lambda command, longest_s: 2]
    assert searched(path, log_root) == 0
    said = capfd.readouterr().out
    for number in (1, 2):
        assert f"trial {number} is left out, because train.py refuses its values (see the message above)" in said
    numbers = {trial["trial"] for trial in told(path, log_root)["trials"]}
    assert {0, 3} <= numbers and not {1, 2} & numbers
    before = decided(log_root)
    assert searched(path, log_root) == 0 and decided(log_root) == before, "it is remembered"


def test_a_trial_that_was_trained_before_is_not_left_out(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [train, train, partial(train, time_s=1.0), lambda command, longest_s: 2]
    with pytest.raises(UserError, match="trial 1 on seed 2 was refused"):
        searched(path, log_root)


def test_two_programs_do_not_decide_about_one_search(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"

    def meanwhile(command: Sequence[str], longest_s: float | None) -> int:
        with pytest.raises(UserError, match=r"another search\.py works on it"):
            searched(path, log_root)
        raise Terminated("SIGTERM")

    trainings.append(meanwhile)
    assert searched(path, log_root) == EXIT_REQUEUE
    assert not trainings


def test_no_training_may_hang_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = []

    def noted(command: Sequence[str], longest_s: float | None, keeps: Sequence[int]) -> int:
        longest.append((longest_s, "--limit_s" in command))
        return train(command, longest_s)

    monkeypatch.setattr(starter, "train_here", noted)
    searched(search_file(tmp_path, budget_h=0.1), tmp_path / "logs")
    assert all(longest_s is not None and 120 <= longest_s < 1000 for longest_s, _ in longest)
    assert all(has_cap for _, has_cap in longest)


def test_a_proven_run_counts_when_its_processes_have_ended(tmp_path: Path) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    cohort = cohort_of(load_search(str(path)), STOCK)
    write_run(log_root, "one", cohort=cohort, seed=1, proof=10, status=None, pid=os.getpid())
    write_run(log_root, "two", cohort=cohort, seed=2, proof=10, status=Status.CRASHED)
    first, second = told(path, log_root)["trials"][0]["runs"]
    assert (first["outcome"], second["outcome"]) == ("running", "reached")


def test_tables_show_the_search(
    ended: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "FEWEST_TRIALS", 2)
    searched(ended / "s.toml", ended / "logs", "--status")
    said = capfd.readouterr().out
    assert "the stock recipe" in said and "importance" in said and "seeds: wall-clock time of the training" in said


def test_a_cluster_that_does_not_answer_for_a_while_does_not_end_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path, log_root = search_file(tmp_path, budget_h=0.06), tmp_path / "logs"
    ask, calls = starter.Search.trainings, iter(range(10**6))

    def rarely(search: starter.Search) -> Trainings:
        if next(calls) in (1, 2, 4):
            raise AskedInVainError("squeue timed out after 60 s")
        return ask(search)

    def never(search: starter.Search) -> Trainings:
        raise AskedInVainError("squeue timed out")

    monkeypatch.setattr(program, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(program, "_MOST_UNANSWERED", 3)
    monkeypatch.setattr(starter.Search, "trainings", rarely)
    assert searched(path, log_root) == 0
    assert "squeue timed out after 60 s; looking again in" in capfd.readouterr().out
    monkeypatch.setattr(starter.Search, "trainings", never)
    with pytest.raises(UserError, match="squeue timed out"):
        searched(path, log_root)
