"""A study counts no run that was trained with other arguments than its file now asks for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.commands.study import run_study
from tests.conftest import ROOT

TRAINER = """
import argparse, secrets, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes.ledgers import write_run
parser = argparse.ArgumentParser()
for flag in ("--cohort", "--log_root"):
    parser.add_argument(flag)
parser.add_argument("--seed", type=int)
args, _ = parser.parse_known_args()
write_run(Path(args.log_root), secrets.token_hex(4), cohort=args.cohort, seed=args.seed)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a study of one seed that was trained; its recipe file is r.toml."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "train.py").write_text(TRAINER.format(tests=str(ROOT / "tests")))
    (folder / "r.toml").write_text("version = 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(folder / "study.py")])
        assert (
            run_study(study(folder, ["--num_envs", "4", "agent.a=1", "agent.b=2", "--recipe", f"{folder}/r.toml"])) == 0
        )
    return folder


def study(folder: Path, arguments: list[str], seeds: str = "[1]") -> list[str]:
    (folder / "s.toml").write_text(f"version = 1\nseeds = {seeds}\narguments = {arguments}\n")
    return [str(folder / "s.toml"), "--log_root", str(folder / "logs")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--num_envs", "8", "agent.a=1", "agent.b=2"],
            "trained with --num_envs 4, but the study now asks for --num_envs 8: rename",
        ),
        (["--num_envs", "4", "agent.b=2"], "trained with agent.a=1, but the study now asks for fewer arguments: "),
        (["--num_envs", "4", "agent.a=1", "agent.b=2", "agent.x=\x1b[2J"], r"now asks for agent.x=\\x1b\[2J: "),
    ],
)
def test_a_run_with_other_arguments_is_refused(trained: Path, arguments: list[str], said: str) -> None:
    for seeds in ("[1]", "[1, 2]"):
        asked = study(trained, [*arguments, "--recipe", f"{trained}/r.toml"], seeds)
        with pytest.raises(UserError, match=f"study s: cohort s was {said}" if "trained" in said else said):
            run_study([*asked, "--dry_run"])


def test_no_secret_is_kept(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, key = trained / "secret", "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    folder.mkdir()
    monkeypatch.setattr(sys, "argv", [str(trained / "study.py")])
    asked = study(folder, [f"agent.token={key}"])
    assert run_study(asked) == 0
    assert key not in (folder / "logs" / "studies" / "s.json").read_text()
    assert run_study([*asked, "--dry_run"]) == 0, "it is compared as it is kept"


def test_what_trains_the_same_is_counted(trained: Path) -> None:
    """A price may change, and the order of the arguments; what a recipe file holds may not."""
    same = ["agent.b=2", "--usd_per_hour", "2", "--recipe", f"{trained}/r.toml", "agent.a=1", "--num_envs", "4"]
    assert run_study([*study(trained, same), "--dry_run"]) == 0
    assert run_study([*study(trained, same[1:]), "--dry_run", "--", "agent.b=2", "--mirror", "tensorboard"]) == 0
    (trained / "r.toml").write_text("version = 1\nabout = 'changed'")
    with pytest.raises(UserError, match="trained with --recipe [0-9a-f]*, but the study now asks for --recipe "):
        run_study([*study(trained, same), "--dry_run"])
    (trained / "r.toml").write_text("version = 1")
