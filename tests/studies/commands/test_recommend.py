"""``report.py recommend``, from rows to what a user reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from tests.fakes.ledgers import write_run
from tests.fakes.scaled import PRICE, write_scaled


def write(root: Path, machine: str, rate: float, usd_per_hour: float | None, seeds: int = 5, **changes: Any) -> None:  # noqa: ANN401
    market = {"market": "unpriced", "source": None, "date": None} if usd_per_hour is None else {}
    price = replace(PRICE, instance=machine, usd_per_hour=usd_per_hour, **market)
    for seed in range(seeds):
        write_scaled(
            root, f"{machine}{seed}", 1, 64, rate=rate, iterations=100 + seed, seed=seed, cohort=machine,
            price=price.to_dict(), **changes,
        )  # fmt: skip


@pytest.fixture(scope="module")
def log_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A slow and cheap machine, a fast one, one without a price, and one with too few runs."""
    root = tmp_path_factory.mktemp("recommend") / "logs"
    write(root, "cheap", 1000.0, 1.0)
    write(root, "fast", 4000.0, 20.0)
    write(root, "unpriced", 500.0, None)
    write(root, "few", 2000.0, 3.0, seeds=2)
    return root


def report(capsys: pytest.CaptureFixture[str], log_root: Path, *arguments: str) -> str:
    assert build_report(["recommend", "T", "--log_root", str(log_root), *arguments]) == 0
    return capsys.readouterr().out


def machines(found: dict[str, Any], places: Sequence[int]) -> list[str]:
    return [found["options"][place]["setting"]["instance"] for place in places]


def test_the_choice_as_json(log_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(report(capsys, log_root, "--json", "-"))
    assert machines(found, [choice["option"] for choice in found["choices"]]) == ["fast", "cheap"]
    assert machines(found, found["pareto_front"]) == ["fast", "cheap"]
    few = next(each for each in found["options"] if each["setting"]["instance"] == "few")
    assert not few["ranked"] and len(few["run_ids"]) == 2
    found = json.loads(report(capsys, log_root, "--json", "-", "--deadline", "1m"))
    assert machines(found, [choice["option"] for choice in found["choices"]]) == ["fast"]


def test_the_choice_as_text(log_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = report(capsys, log_root)
    for said in (
        "least time: fast · rsl_rl · 64",
        "least money: cheap · rsl_rl · 64",
        "unpriced has no price, so its cost is not ranked: give --usd_per_hour",
        "not ranked: it needs at least 5 runs, and has 2",
    ):
        assert said in text
    assert "and keeps the limits with a probability of 90 %" in report(capsys, log_root, "--budget", "0.00001")


def test_interrupted_runs_are_paid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alike = {"num_envs": 64, "horizon": 16, "machines": 1, "cohort": "one"}
    price = replace(PRICE, instance="one", usd_per_hour=1.0).to_dict()
    write_run(tmp_path, "again", scores=(), status=Status.KILLED, seed=0, price=price, **alike)
    write_run(tmp_path, "alone", scores=(), status=Status.PREEMPTED, seed=99, price=price, **alike)
    write(tmp_path, "one", 1000.0, 1.0)
    found = json.loads(report(capsys, tmp_path, "--json", "-"))
    (option,) = found["options"]
    assert (option["reached"], len(option["run_ids"])) == (5, 6)
    assert found["remarks"] == ["left out: 1 that made the same trainings as others (their cost counts)"]
    assert option["notes"] == [
        "1 of its runs were interrupted, and count as short of the target",
        "its runs differ in max_iterations",
    ]


def test_runs_of_one_seed_count_once_and_all_are_paid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(5):
        write_scaled(tmp_path, f"r{number}", 1, 64, rate=1000.0, iterations=100, seed=42)
    found = json.loads(report(capsys, tmp_path, "--json", "-"))
    (option,) = found["options"]
    assert (option["run_ids"], option["ranked"]) == (["r0"], False)
    assert found["remarks"] == ["left out: 4 that made the same trainings as others (their cost counts)"]
    assert option["time"] is None, "one run tells nothing of the spread between runs"


def test_only_runs_of_one_version_of_the_code_are_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One machine has the faster code in most runs, and is the slower one with either code."""
    for machine, factor, numbers in (("one", 1.0, (2, 6)), ("two", 1.1, (6, 5))):
        price = replace(PRICE, instance=machine).to_dict()
        for version, (code, count) in enumerate(zip((1000.0, 3000.0), numbers, strict=True)):
            for seed in range(count):
                write_scaled(
                    tmp_path, f"{version}-{machine}{seed}", 1, 64, rate=code * factor, iterations=100 + seed, seed=seed,
                    price=price, code_sha256={"ledger_lab": f"{version}"},
                )  # fmt: skip
    text = report(capsys, tmp_path)
    assert "least time: two" in text
    assert "left out: 8 runs by other versions of the code or its packages than that of the newest run" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("recommend", "TT"), "recommend TT: no run of this task; .*T"),
        (("recommend", "T", "--target", "0.5"), "--target 0.5: no run of T was trained to it.*0.9"),
        (("recommend", "T", "--budget", "-1"), "--budget -1: give an amount of more than 0"),
        (("recommend", "T", "--budget", "nan"), "--budget nan: give an amount of more than 0"),
        (("recommend", "T", "--usd_per_hour", "1"), "of several machines .cheap, fast, few, unpriced."),
        (("recommend", "T", "--budget", "1", "unpriced"), "--budget: unpriced has no price: give --usd_per_hour"),
        (("--deadline", "2h"), "unknown argument '--deadline'"),
    ],
)
def test_bad_input_is_refused_in_one_line(log_root: Path, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        build_report([*arguments, "--log_root", str(log_root)])
    assert "\n" not in str(refused.value)


def test_other_panels_and_targets_are_not_ranked_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "one", 1000.0, 1.0)
    write(tmp_path, "two", 1000.0, 1.0, panel_id="p1-bb")
    write(tmp_path, "three", 1000.0, 1.0, target_success=0.8)
    with pytest.raises(UserError, match=r"different panels, targets or rules.*give --target.*5 with .*one.*two.*three"):
        build_report(["recommend", "T", "--log_root", str(tmp_path)])
    assert "three" in report(capsys, tmp_path, "--target", "0.8")
    assert "two" in report(capsys, tmp_path, "two")


def test_configurations_that_look_alike_have_names_that_tell_them_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for physics in ("newton", "physx"):
        for seed in range(5):
            write_scaled(
                tmp_path, f"{physics}{seed}", 1, 64, rate=1000.0, iterations=100 + seed, seed=seed, physics=physics
            )  # fmt: skip
    text = report(capsys, tmp_path)
    assert "made-up · newton · rsl_rl · 64" in text and "made-up · physx · rsl_rl · 64" in text
    assert "it is the best of 2 with a probability of" in text and "hold for all 2 together" in text
    assert "it is the only one that can be chosen" in report(capsys, tmp_path, *(f"newton{seed}" for seed in range(5)))


def test_trainings_that_still_run_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    price = replace(PRICE, instance="m").to_dict()
    write_scaled(tmp_path, "a", 1, 64, rate=1000.0, iterations=100, reached=False, ends=False, price=price)
    assert "least time: no configuration has both enough runs and a known time" in report(capsys, tmp_path)
