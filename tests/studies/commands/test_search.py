"""A search starts what its race decides, goes on from its ledger alone, and ends with a comparison and a recipe."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import Status, read_ledger
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.studies.commands import search as program
from ledger_lab.studies.commands import search_locks
from ledger_lab.studies.search.declaration import load_search
from ledger_lab.studies.search.prediction import FEWEST_REACHED, ScoredTraining
from ledger_lab.studies.search.trials import Place, cohort_of
from ledger_lab.tasks.recipes.recipe_file import read_recipe
from ledger_lab.units import duration
from tests.conftest import ROOT
from tests.fakes.ledgers import write_run
from tests.fakes.searches import Trainer, replace_trainings, search_file, searched, told, train
from tests.fakes.waiting import wait_until

PROGRAM = """
import sys
sys.argv = {argv!r}
from ledger_lab.commands.search import run_search
run_search({asked!r})
"""


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


def test_a_search_ends_with_a_comparison_and_a_recipe(ended: Path) -> None:
    path, log_root = ended / "s.toml", ended / "logs"
    said = (ended / "said.txt").read_text()
    assert "the search has ended: the rest of the budget does not buy a training of up to" in said
    assert "all sealed seeds have been run" in said
    assert "it is repaid after" in said

    found = told(path, log_root)
    winner = found["winner"]
    assert found["comparisons"][0]["ratio_high"] < 1
    assert found["spent"] <= found["budget_h"] == 0.15
    assert [step["charge"] for step in found["steps"]] == sorted((s["charge"] for s in found["steps"]), reverse=True)
    (recipe,) = log_root.rglob(f"t{winner:04d}.toml")
    assert f"train.py --task LedgerLab-Cartpole --recipe {recipe}" in said
    values = next(trial["values"] for trial in found["trials"] if trial["trial"] == winner)
    assert dict(read_recipe(recipe).fields) == values
    bill = sum(run["wall_s"] for trial in found["trials"] for run in trial["runs"])
    assert found["bill"] == pytest.approx(bill)

    before = decided(log_root)
    assert searched(path, log_root) == 0, "an ended search starts nothing"
    assert decided(log_root) == before


def test_the_json_says_what_early_predictions_would_have_done(ended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last training is behind, and it missed the target."""
    trials = told(ended / "s.toml", ended / "logs")["trials"]
    raced = [
        (trial["trial"], run["seed"])
        for trial in trials
        for run in trial["runs"]
        if not run["sealed"] and not run["repeat"]
    ]
    scored = [
        ScoredTraining(
            trial=trial, seed=seed, started_s=100.0 * place, wall_s=50.0, reached=(trial, seed) != raced[-1],
            scores=((10.0, 0.1 if (trial, seed) == raced[-1] else 0.5),),
        )
        for place, (trial, seed) in enumerate(raced)
    ]  # fmt: skip
    monkeypatch.setattr(program, "scored_trainings", lambda runs: scored)
    judged = len(raced) - FEWEST_REACHED
    assert told(ended / "s.toml", ended / "logs")["early_prediction"] == {
        "trainings": judged, "ended": 1, "wrong": 0, "saved_s": 40.0, "wall_s": 50.0 * judged, "is_trusted": True,
    }  # fmt: skip


def test_no_training_of_the_race_uses_a_sealed_seed(ended: Path) -> None:
    for cohort, seed, _ in decided(ended / "logs"):
        assert (cohort or "").endswith("-sealed") == (seed >= 11)


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


def test_the_same_ledger_gives_the_same_next_training(
    ended: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, log_root = search_file(tmp_path), shutil.copytree(ended / "logs", tmp_path / "logs")
    runs = sorted(read_ledger(log_root).runs, key=lambda run: run.declared_at)
    for run in runs[5:]:
        shutil.rmtree(run.directory)
    capfd.readouterr()
    searched(path, log_root, "--dry_run")
    once = capfd.readouterr().out
    assert f"--seed {runs[5].declared.seed} --cohort {runs[5].declared.cohort}" in once
    searched(path, log_root, "--dry_run")
    assert capfd.readouterr().out == once


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
    with pytest.raises(UserError, match="10 trainings in a row ended without a result, the last one of trial 9"):
        searched(path, log_root)
    assert len(trainings) == 10


def test_a_training_that_can_not_be_resumed_is_not_tried_for_ever(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [partial(train, interrupted_after_s=1.0), *[lambda command, longest_s: 1] * 20]
    with pytest.raises(UserError, match="10 trainings in a row ended without a result, the last one of the stock"):
        searched(path, log_root)


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
    assert searched(path, log_root) == 0 and decided(log_root) == before, "the ledger remembers it"
    declared = {cohort.name: len(cohort.run_ids) for cohort in read_ledger(log_root).cohorts}
    stem = load_search(path).cohort_stem
    assert declared == {f"{stem}-t0001": 0, f"{stem}-t0002": 0}
    named = Path(said.partition(" is left out")[2].partition("remove ")[2].splitlines()[0])
    assert named == log_root / "cohorts" / f"{stem}-t0001" and named.is_dir(), "what to remove to try it again"


def test_a_trial_that_was_trained_before_is_not_left_out(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [train, train, partial(train, time_s=1.0), lambda command, longest_s: 2]
    with pytest.raises(UserError, match="trial 1 on seed 2 was refused"):
        searched(path, log_root)
    assert not read_ledger(log_root).cohorts


def test_a_cause_that_refuses_every_trial_stops_the_search(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings += [train, train, *[lambda command, longest_s: 2] * 20]
    with pytest.raises(UserError, match="10 trainings in a row ended without a result, the last one of trial 10"):
        searched(path, log_root)


def test_a_stock_recipe_that_crashes_ends_the_search(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    trainings.append(partial(train, status=Status.CRASHED))
    with pytest.raises(UserError, match="the stock recipe crashed on seed 1"):
        searched(path, log_root)


def test_a_budget_that_buys_no_trial_is_refused(tmp_path: Path) -> None:
    path, log_root = search_file(tmp_path, budget_h=0.04), tmp_path / "logs"
    with pytest.raises(UserError, match="does not buy one trial besides"):
        searched(path, log_root)
    assert not [cohort for cohort, seed, _ in decided(log_root) if seed >= 11]


def test_two_programs_do_not_decide_about_one_search(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"

    def meanwhile(command: Sequence[str], longest_s: float | None) -> int:
        with pytest.raises(UserError, match=r"another search\.py works on it"):
            searched(path, log_root)
        raise Terminated("SIGTERM")

    trainings.append(meanwhile)
    assert searched(path, log_root) == EXIT_REQUEUE
    assert not trainings


def test_a_training_that_outlives_its_search_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path, log_root, started = search_file(tmp_path, budget_h=0.04), tmp_path / "logs", tmp_path / "started"
    (tmp_path / "train.py").write_text(
        "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"  # it takes a while to end
        f"open({str(started)!r}, 'w').close()\nsys.stdin.read()\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.fakes.searches import train\ntrain(['python', *sys.argv])\n"
    )
    searching = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(argv=sys.argv, asked=[str(path), "--log_root", str(log_root)])],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    wait_until(started.exists, "the training has started", 60.0, 0.05)
    searching.kill()
    searching.wait()
    assert not read_ledger(log_root).runs, "the training has not declared its run"
    lock = search_locks.fcntl.flock

    def end_training_first(descriptor: int, operation: int) -> None:
        if not operation & search_locks.fcntl.LOCK_NB and searching.stdin is not None:
            searching.stdin.close()
        lock(descriptor, operation)

    monkeypatch.setattr(search_locks.fcntl, "flock", end_training_first)
    stock_trained(tmp_path)
    assert "waiting: a training that an earlier search.py started is under way" in capfd.readouterr().out
    assert sorted(seed for _, seed, _ in decided(log_root)) == [1, 2]


def test_no_training_may_hang_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = []

    def noted(command: Sequence[str], longest_s: float | None, keeps: Sequence[int]) -> int:
        longest.append((longest_s, "--limit_s" in command))
        return train(command, longest_s)

    monkeypatch.setattr(program, "train_here", noted)
    searched(search_file(tmp_path, budget_h=0.1), tmp_path / "logs")
    assert all(longest_s is not None and 120 <= longest_s < 1000 for longest_s, _ in longest)
    assert {has_cap for _, has_cap in longest} == {True, False}


def test_foreign_trainings_are_refused(tmp_path: Path, trainings: list[Trainer]) -> None:
    path, log_root = search_file(tmp_path, budget_h=0.1), tmp_path / "logs"
    searched(path, log_root)
    (cohort,) = {cohort for cohort, _, _ in decided(log_root) if (cohort or "").endswith("t0001")}
    strange = ["python", "train.py", "--task", "T", "--log_root", str(log_root), "--cohort", str(cohort)]
    train([*strange, "--seed", "1"])
    with pytest.raises(UserError, match="have different values: move away those"):
        searched(path, log_root, "--status")


def test_nothing_is_trained_again_while_a_run_of_the_search_is_damaged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, log_root = stock_trained(tmp_path)
    run = read_ledger(log_root).runs[-1]
    journal = run.directory / "journal-1-0.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"LedgerLab-Cartpole", b"LedgerLab-Cartpale", 1))
    capfd.readouterr()
    for more in ([], ["--dry_run"]):
        with pytest.raises(UserError, match="a training of it may be left out"):
            searched(path, log_root, *more)
    assert searched(path, log_root, "--status") == 0
    assert capfd.readouterr().err.count("left out:") == 3, "once for each call"
    journal.write_bytes(whole)
    shutil.copytree(run.directory, run.directory.with_name("copy"))
    with pytest.raises(UserError, match="a training of it may be left out"):
        searched(path, log_root)
    assert len(list(log_root.rglob("journal-1-0.jsonl"))) == 3


def test_damage_of_other_runs_does_not_matter(tmp_path: Path) -> None:
    journal = write_run(tmp_path / "logs", "other", cohort="mine") / "journal-1-0.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"seed"', b'"sead"', 1))
    stock_trained(tmp_path)


def test_a_confirmed_run_counts_when_its_processes_have_ended(tmp_path: Path) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    cohort = cohort_of(load_search(path), Place(0))
    write_run(log_root, "one", cohort=cohort, seed=1, confirmation=10, status=None, pid=os.getpid())
    write_run(log_root, "two", cohort=cohort, seed=2, confirmation=10, status=Status.CRASHED)
    first, second = told(path, log_root)["trials"][0]["runs"]
    assert (first["outcome"], second["outcome"]) == ("running", "reached")


def test_a_changed_file_is_another_search(tmp_path: Path) -> None:
    log_root = tmp_path / "logs"
    searched(search_file(tmp_path, budget_h=0.1), log_root)
    count = len(decided(log_root))
    searched(search_file(tmp_path, budget_h=0.11), log_root)
    assert len(decided(log_root)) > count
    assert len({(cohort or "").rpartition("-t")[0] for cohort, _, _ in decided(log_root)}) == 2


def test_a_page_and_figures_show_the_search(tmp_path: Path) -> None:
    path, log_root, page = search_file(tmp_path, budget_h=0.3), tmp_path / "logs", tmp_path / "page.html"
    path.write_text(path.read_text().replace("made for tests", "<script>alert(1)</script>"))
    searched(path, log_root)
    searched(path, log_root, "--status", "--html", str(page))
    written = page.read_text()
    assert written.count("data:image/svg+xml;base64,") == 3, "the race, the sealed seeds, and the importance"
    assert "<script" not in written and "&lt;script&gt;alert(1)" in written
    assert "it is repaid after" in written
    stock = told(path, log_root)["trials"][0]["runs"][0]
    cell = f"{duration(stock['wall_s'])} (cap {duration(stock['cap_s'])})"
    assert f'<td data-label="seed 1"><bdi>{cell}</bdi></td>' in written, "each training has its cap"
    assert '<td data-label="importance">' in written
    searched(path, log_root, "--status", "--figures", str(tmp_path / "figures"))
    names = sorted(each.name.rpartition("-")[2] for each in (tmp_path / "figures").iterdir())
    assert names == [f"{name}.{kind}" for name in ("importance", "race", "sealed") for kind in ("png", "svg")]
