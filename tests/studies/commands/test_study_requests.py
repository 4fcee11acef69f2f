"""A study counts no run that was trained with other arguments than its file now asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.studies.checks import request_of
from ledger_lab.studies.commands.scaling import report_scaling
from ledger_lab.studies.commands.study import run_study
from ledger_lab.studies.declared import load_study
from tests.fakes.ledgers import write_run

KEY = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def study(folder: Path, arguments: list[str], seeds: str = "[1]") -> list[str]:
    (folder / "s.toml").write_text(f"version = 1\nseeds = {seeds}\narguments = {arguments}\n")
    return [str(folder / "s.toml"), "--log_root", str(folder / "logs")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a study of one seed that was trained; its recipe file is r.toml."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "r.toml").write_text("version = 1\n[recipe]\nminibatches = 2\n")
    path, *_ = study(folder, ["--eval_every", "4", "agent.a=1", "agent.b=2", "--recipe", f"{folder}/r.toml"])
    request = request_of(load_study(path).arms[0], ["--seed", "1", "--limit_s", "9", f"agent.token={KEY}"]).to_data()
    request["overrides"].append("physics=newton_mujoco")  # as train.py adds it
    write_run(folder / "logs", "aa", cohort="s", seed=1, request=Redactor().value(request))
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--eval_every", "8", "agent.a=1", "agent.b=2"],
            "trained with --eval_every 4, but the study now asks for --eval_every 8: rename",
        ),
        (["--eval_every", "4", "agent.b=2"], "trained with agent.a=1, but the study now asks for fewer arguments: "),
        (["--eval_every", "4", "agent.a=1", "agent.b=2", "agent.x=\x1b[2J"], r"now asks for agent.x=\\x1b\[2J: "),
    ],
)
def test_a_run_with_other_arguments_is_refused(trained: Path, arguments: list[str], said: str) -> None:
    for seeds in ("[1]", "[1, 2]"):
        asked = study(trained, [*arguments, f"agent.token={KEY}", "--recipe", f"{trained}/r.toml"], seeds)
        with pytest.raises(UserError, match=f"study s: cohort s was {said}" if "trained" in said else said) as refused:
            run_study([*asked, "--dry_run"])
        assert KEY not in str(refused.value)


def test_what_trains_the_same_is_counted(trained: Path) -> None:
    """A price or a limit may change, and the order of the arguments; what a recipe file holds may not."""
    same = ["--usd_per_hour", "2", "agent.b=2", "--recipe", f"{trained}/r.toml", "agent.a=1", "--eval_every", "4"]
    same.append(f"agent.token={KEY}")
    assert run_study([*study(trained, same), "--dry_run"]) == 0
    assert run_study([*study(trained, same[2:]), "--dry_run", "--", "--logger", "tensorboard"]) == 0
    (trained / "r.toml").write_text("version = 1\n[recipe]\nminibatches = 4\n")
    with pytest.raises(UserError, match=r"trained with \S+=2, but the study now asks for \S+=4: "):
        run_study([*study(trained, same), "--dry_run"])


@pytest.mark.parametrize(
    "request_of_run", [{"task": "T"}, *({"overrides": each} for each in (None, "agent.a=1", [["agent.a=1"]], [1], {}))]
)
def test_a_request_of_another_form_ends_in_no_traceback(tmp_path: Path, request_of_run: dict[str, object]) -> None:
    write_run(tmp_path / "logs", "aa", cohort="s", seed=1, request=request_of_run)
    with pytest.raises(UserError, match="cohort s was trained with ") as refused:
        run_study([*study(tmp_path, ["--eval_every", "4"]), "--dry_run"])
    assert "\n" not in str(refused.value)
    assert report_scaling(["--log_root", str(tmp_path / "logs")]) == 0
