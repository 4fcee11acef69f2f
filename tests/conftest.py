"""Real runs that several tests share; the scripts make each run once per session."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import hypothesis
import newton_usd_schemas  # noqa: F401 - USD looks for schemas once: when the first test opens a stage
import pytest

from ledger_lab.ledger.cores import imports
from ledger_lab.reports.terminal.script import compile_forward_only, let_threads_sleep
from tests.warm import warm

let_threads_sleep()  # before a test imports torch: the workers of the suite share the cores
compile_forward_only()  # as the programs, so that the kernels are the same
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would programs
pytest.register_assert_rewrite("tests.fakes.robots")
hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine fails no test
hypothesis.settings.load_profile("untimed")

ROOT = Path(__file__).parents[1]
SHORT = ("--num_envs", "64", "--max_iterations", "3", "--device", "cpu", "--seed", "42", "agent.save_interval=1")
"""A training of seconds: three iterations, a checkpoint each."""
SIMULATING = {"evaluate", "export_policy", "list_envs", "new_panel", "play", "profile_run", "train"}
"""Scripts that import torch and Isaac Lab."""
MISSING_WINGS = [
    wing
    for wing in ("clusters", "mujoco_cpu", "off_policy", "studies")
    if importlib.util.find_spec(f"ledger_lab.{wing}") is None
]
RUNS = {"trained", "unscored", "resumed"}
"""Fixtures with a run that tests of several files look at."""


def script(name: str, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script to its end from imported libraries, see :mod:`tests.warm`, and return what it printed."""
    return warm("simulation" if name in SIMULATING else "reading").run(*command(name, *arguments)[1:], cwd=cwd or ROOT)


def answers_without(packages: Iterable[str], *asked: Sequence[str], cwd: Path = ROOT) -> list[tuple[str, str | None]]:
    """Ask commands in one process where packages are missing; return what each prints, and why it refuses."""
    program = [sys.executable, str(ROOT / "tests" / "fakes" / "answers.py"), ",".join(packages)]
    done = subprocess.run(program, input=json.dumps(asked), capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [tuple(each) for each in json.loads(done.stdout)]


def fake(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Train by a program of ``tests/fakes`` to its end, and return what it printed."""
    return warm("simulation").run(str(ROOT / "tests" / "fakes" / f"{name}.py"), *map(str, arguments), cwd=ROOT)


def benchmark(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a benchmark to its end, and return what it printed."""
    program = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)


def command(name: str, *arguments: str | Path) -> Sequence[str]:
    """Return the command line of a script."""
    return [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *map(str, arguments)]


def one_run_dir(log_root: Path) -> Path:
    """Return the directory of the only run under a root."""
    (journal,) = log_root.rglob("journal-1-0.jsonl")
    return journal.parent


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of wings whose folders are missing: those that import such a wing, or a fake of it."""
    if collection_path.suffix != ".py" or not MISSING_WINGS:
        return None
    named = rf"ledger_lab\.({'|'.join(MISSING_WINGS)})\b|tests\.fakes\.(off_policy|scaled|scaling_studies|searches)\b"
    return True if re.search(named, collection_path.read_text(encoding="utf-8")) else None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep on one worker what shares something expensive: the tests of a file, and those that look at the same runs."""
    for item in items:
        shared = "trained" if RUNS & {*getattr(item, "fixturenames", ())} else str(item.path)
        item.add_marker(pytest.mark.xdist_group(shared))
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while tests import torch, Warp and Isaac Lab, and leave out later what they made."""
    with imports():
        return (yield)


@functools.cache
def _has_gpu() -> bool:
    """Tell whether torch sees a GPU."""
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger that holds one short training, priced at $3.60 an hour."""
    log_root = tmp_path_factory.mktemp("trained")
    asked = command("train", *SHORT, "--log_root", log_root, "--usd_per_hour", "3.6", "--cohort", "tests")
    finished = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (log_root / "stdout.txt").write_text(finished.stdout)
    return log_root


@pytest.fixture(scope="session")
def unscored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger with the training of :func:`trained`, but without scores, and with a logger."""
    log_root = tmp_path_factory.mktemp("unscored")
    asked = ("--no_eval", "env.scene.env_spacing=0.0", "--logger", "tensorboard")
    finished = script("train", *SHORT, *asked, "--log_root", log_root)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return log_root


@pytest.fixture(scope="session", autouse=True)
def _one_home() -> None:
    """Let the tests' simulations share the kernel cache of the user, and no display."""
    os.environ.pop("DISPLAY", None)


@pytest.fixture(autouse=True)
def _give_signals_back() -> Iterator[None]:
    """Leave the handlers of signals as a test found them: programs that it calls in this process set their own."""
    former = {signum: signal.getsignal(signum) for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    yield
    for signum, handler in former.items():
        signal.signal(signum, handler)
