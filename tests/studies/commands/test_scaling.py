"""``report.py scaling``, from rows to what a user reads."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger.cohorts import declare_cohort
from tests.fakes.ledgers import write_run
from tests.fakes.scaled import HORIZON, PRICE, write_scaled

CONTENTION, CRITICAL, FEWEST, SINGLE = 0.1, 4096.0, 2_000_000.0, 50_000.0


@pytest.fixture(scope="module")
def log_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A strong and a weak study of three seeds, whose laws are known; one run misses its target."""
    root, generator = tmp_path_factory.mktemp("scaling") / "logs", np.random.default_rng(3)
    sizes = [("weak", processes, 64) for processes in (1, 2, 4, 8)]
    sizes += [("strong", processes, 512 // processes) for processes in (1, 2, 4, 8)]
    for (kind, processes, num_envs), seed in ((size, seed) for size in sizes for seed in (1, 2, 3)):
        others = processes - 1
        rate = processes - CONTENTION * others if kind == "weak" else processes / (1 + CONTENTION * others)
        rate *= SINGLE * math.exp(0.02 * generator.standard_normal())
        batch = processes * num_envs * HORIZON
        steps = FEWEST * (1 + batch / CRITICAL) * math.exp(0.05 * generator.standard_normal())
        reached = (kind, processes, seed) != ("weak", 8, 1)
        write_scaled(
            root, f"{kind}{processes}{seed}", processes, num_envs, rate=rate,
            iterations=round(steps / batch) if reached else round(0.5 * steps / batch), reached=reached, seed=seed,
            task=kind, cohort=f"{kind}-{processes}",
            waits=tuple(0.02 + 0.1 * (rank > 0) for rank in range(processes)) if processes == 4 else (),
        )  # fmt: skip
    return root


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert build_report([*map(str, arguments), "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def holds(figure: dict[str, Any], truth: float) -> bool:
    low, high = figure["interval"]
    return bool(low <= truth <= high) and math.isclose(figure["value"], truth, rel_tol=0.5)


def test_known_laws_are_found_again_from_rows(log_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    studies = {study["kind"]: study for study in as_json(capsys, "scaling", "--log_root", log_root)["studies"]}
    assert set(studies) == {"strong", "weak"}
    for kind, law in (("strong", "Amdahl"), ("weak", "Gustafson")):
        fit = studies[kind]["rate_law"]
        assert (fit["law"], fit["fits"]) == (law, True)
        assert holds(fit["contention"], CONTENTION) and holds(fit["single_rate"], SINGLE)
        assert [*map(int, fit["fitted"])] == fit["sizes"]
    weak = studies["weak"]
    assert weak["batch_law"]["censored"] == 1
    assert holds(weak["batch_law"]["critical_batch"], CRITICAL) and holds(weak["batch_law"]["fewest_samples"], FEWEST)
    assert "3 batches" in studies["strong"]["batch_law"]["reason"], "all of its runs have the same batch"
    largest = weak["sizes"][-1]
    assert (largest["processes"], largest["reached"], len(largest["runs"])) == (8, 2, 3)
    assert largest["of_training"] == pytest.approx(largest["of_rate"] * largest["of_samples"])
    rests = [
        run["identity"]["residual_s"] for study in studies.values() for size in study["sizes"] for run in size["runs"]
    ]
    assert max(map(abs, rests)) < 1e-6


def test_the_text_names_what_was_found(log_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_report(["scaling", "--log_root", str(log_root)]) == 0
    text = capsys.readouterr().out
    for said in (
        "strong scaling: 512 environments in all",
        "weak scaling: 64 environments in each process",
        "Amdahl's law, from 4 sizes, 1 to 8 processes: contention",
        "12 runs with batches of 1024 to 8192 samples, 1 of them short of the target",
        "2 of 3",
    ):
        assert said in text
    assert text.count("> ") == 1, "the run that missed its target"


def test_cautions_are_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for processes, rate in ((1, 1.0), (2, 2.0)):
        price = replace(PRICE, usd_per_hour=rate).to_dict()
        write_scaled(tmp_path, f"{processes}", processes, 64, rate=1000.0, iterations=5, price=price)
    (study,) = as_json(capsys, "scaling", "--log_root", tmp_path)["studies"]
    assert study["cautions"] == [
        "prices differ ($1/h, $2/h), so costs cannot be compared: set one price for all runs with --instance or "
        "--usd_per_hour",
        *(
            f"{processes} × 64: 1 of 1 run trained fewer than 10 iterations: rates, speed-up and efficiency are rough, "
            "because the first iterations are slower"
            for processes in (1, 2)
        ),
    ]


def test_only_the_named_cohorts_are_compared(log_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study,) = as_json(capsys, "scaling", "--log_root", log_root, "weak-1", "weak-2")["studies"]
    assert [size["processes"] for size in study["sizes"]] == [1, 2]
    assert study["rate_law"]["reason"] == "Gustafson's law needs 3 sizes, and there are 2"


def test_runs_of_other_panels_are_shown_apart_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run_id, processes, panel_id in (("aa", 1, "p1-aa"), ("bb", 2, "p1-bb"), ("cc", 2, "p1-aa")):
        write_scaled(tmp_path, run_id, processes, 64, rate=1000.0, iterations=5, panel_id=panel_id, task="[red]T\x1b")
    write_run(tmp_path, "dd", scores=(), task="never trained to the end", status=None)
    declare_cohort(tmp_path, "absent", 2)
    assert build_report(["scaling", "--log_root", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "(p1-aa…)" in text and "(p1-bb…)" in text
    assert "weak scaling: 64 environments in each process" in text
    assert "cohort absent: 2 of 2 declared runs missing" in text
    assert "[red]T\\x1b" in text and "\x1b" not in text


def test_a_name_that_nothing_has_is_refused(log_root: Path) -> None:
    with pytest.raises(UserError, match="no run or cohort 'nope'"):
        build_report(["scaling", "nope", "--log_root", str(log_root)])
