"""Configurations of RSL-RL for anything but a fresh PPO training are refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.tasks.cartpole.recipe import CARTPOLE


def changed(**fields: object) -> Any:  # noqa: ANN401 - the library's own type
    """Return our recipe with fields of the library's configuration changed."""
    from ledger_lab.training.runners.rsl_rl.dialect import native_config

    cfg = native_config(CARTPOLE)
    for name, value in fields.items():
        setattr(cfg, name, value)
    return cfg


def adapter() -> Any:
    from ledger_lab.training.runners.adapter import load_adapter

    return load_adapter("rsl_rl")


def test_settings_that_contradict_the_declaration_are_refused() -> None:
    from isaaclab_rl.rsl_rl import RslRlDistillationRunnerCfg

    for cfg, complaint in (
        ({"seed": 1}, "is not for RSL-RL's PPO"),
        (RslRlDistillationRunnerCfg(), "is not for RSL-RL's PPO"),
        (changed(class_name="my_lab:Runner"), "is not for RSL-RL's PPO"),
        (changed(resume=True), "agent.resume True: leave it out"),
    ):
        with pytest.raises(UserError, match=complaint) as refused:
            adapter().prepare(cfg, "cpu")
        assert "\n" not in str(refused.value)


def test_rsl_rl_can_be_imported_where_git_is_missing(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "GIT_PYTHON_REFRESH"}
    program = [sys.executable, "-c", "import ledger_lab.training.runners.rsl_rl, git"]
    done = subprocess.run(program, env={**environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
