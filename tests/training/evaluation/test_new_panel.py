"""A new panel file can be used unchanged, and lists the task's terms."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.panels import Panel, load_panel
from tests.conftest import script

TASKS = ["LedgerLab-Cartpole", "LedgerLab-Ant", "Isaac-Velocity-Flat-AnymalD", "Isaac-Reach-Franka"]


def written(tmp_path: Path, *arguments: str) -> str:
    """Write a panel file in this process, and return its text."""
    from ledger_lab.training.evaluation.new_panel import new_panel

    assert new_panel([*arguments, "--output", str(tmp_path / "mine.toml")]) == 0
    return (tmp_path / "mine.toml").read_text()


def load(tmp_path: Path, text: str) -> Panel:
    """Load a panel from its text."""
    (tmp_path / "changed.toml").write_text(text)
    return load_panel(str(tmp_path / "changed.toml"))


def with_all_cells(text: str) -> str:
    """Remove the signs that make the example cells comments."""
    head, tail = text.split('name = "nominal"')
    return head + 'name = "nominal"' + re.sub(r"^# ", "", tail, flags=re.MULTILINE)


def test_the_program_writes_a_panel_file_and_prints_the_next_steps(tmp_path: Path) -> None:
    finished = script("new_panel", "--task", "LedgerLab-Cartpole", cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    panel = load_panel(str(tmp_path / "ledgerlab_cartpole.toml"))
    assert (panel.task, panel.episode_length_s, panel.target_success) == ("LedgerLab-Cartpole", 5.0, 0.9)
    assert panel.seeds == tuple(range(256))
    assert [(cell.name, cell.perturbations) for cell in panel.cells] == [("nominal", ())]
    assert panel.success_function == "ledger_lab.tasks.cartpole.success:succeeded"
    first, chance, left, then = finished.stdout.splitlines()
    assert "needs 241 of 256" in chance and "policy of 95 %" in chance and "79 %" in chance
    assert first == "wrote ledgerlab_cartpole.toml: 256 episodes of 5 s of LedgerLab-Cartpole"
    assert "left to do" in left and "has no attribute 'succeeded'" in left
    assert then.endswith("scripts/train.py --task LedgerLab-Cartpole --panel ledgerlab_cartpole.toml")


@pytest.mark.parametrize("task", TASKS)
def test_every_example_cell_is_valid(task: str, tmp_path: Path) -> None:
    text = written(tmp_path, "--task", task)
    panel = load(tmp_path, with_all_cells(text))
    assert len(panel.cells) == 1 + text.count("# [[cells]]") > 10
    assert [part.kind for cell in panel.cells for part in cell.perturbations] == [c.name for c in panel.cells[1:]]


@pytest.mark.parametrize(
    ("task", "offered"),
    [
        (
            "LedgerLab-Cartpole",
            ["joints slider_to_cart, cart_to_pole", "ends it: cart_out_of_bounds", "hold_s"],
        ),
        ("LedgerLab-Ant", ["ends it: torso_height", 'env.scene["joint_wrench"]', "base_height = 0.01"]),
        (
            "Isaac-Velocity-Flat-AnymalD",
            [
                "joints .*HAA, .*HFE, .*KFE",
                "ends it: base_contact",
                'env.command_manager.get_command("base_velocity")',
                'env.scene["contact_forces"]',
                "my_package.success:succeeded",
            ],
        ),
        (
            "Isaac-Cartpole-Direct",
            ["ends it: terminated", "env.actions, and", "def succeeded(env: DirectRLEnv", "observations = 0.01"],
        ),
        ("Isaac-Reach-Franka", ['env.scene["robot"]', 'get_command("ee_pose")', "episode_length_s = 12.0"]),
    ],
)
def test_the_panel_file_lists_the_terms_of_the_task(task: str, offered: Sequence[str], tmp_path: Path) -> None:
    text = written(tmp_path, "--task", task)
    for each in offered:
        assert each in text
    prose, _, _ = text.partition("[[cells]]")
    assert max(map(len, prose.splitlines())) <= 120


def test_any_text_is_written_as_valid_toml(tmp_path: Path) -> None:
    from ledger_lab.training.evaluation.new_panel import render_panel
    from ledger_lab.training.runners.configs import resolve_configs

    nasty = 'say "yes" \\ no\n\ttab\x00\x1f\x7f\u2028 [x] # = ü 🤖'
    env_cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", [])
    term = env_cfg.observations.policy.joint_pos
    env_cfg.observations.policy.__dict__.update({"joint.pos [rad]": term, "gelenk_ü": term})
    panel = load(tmp_path, written(tmp_path, "--task", "LedgerLab-Cartpole"))
    content = tomllib.loads(with_all_cells(render_panel(replace(panel, description=nasty, task=nasty), env_cfg)))
    assert (content["description"], content["task"]) == (nasty, nasty)
    (noise,) = [cell["observation_noise"] for cell in content["cells"] if cell["name"] == "observation_noise"]
    assert set(noise["std"]) == {"joint_pos", "joint_vel", "joint.pos [rad]", "gelenk_ü"}


def test_an_existing_panel_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("precious")
    with pytest.raises(UserError, match=r"mine.toml exists already: name another file with --output"):
        written(tmp_path, "--task", "LedgerLab-Cartpole")
    assert (tmp_path / "mine.toml").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--task", "LedgerLab-Cartpol"], r"unknown task 'LedgerLab-Cartpol': did you mean 'LedgerLab-Cartpole'"),
        (["--task", "Isaac-Pendulum-MARL-Direct"], r"has several agents"),
        (["--seeds", "0"], r"--seeds 0: must be at least 1"),
        (["--seeds", "20"], r"20 episodes are too few to prove a success of 0.9"),
        (["--target", "nan"], r"--target nan: must be above 0 and at most 1"),
        (["--success", "upright"], r"--success 'upright': must read module:function"),
        (["--success", ""], r"--success '': must read module:function"),
        (["--success", "my tasks:upright"], r"--success 'my tasks:upright': must read module:function"),
        (["--output", "panel"], r"--output panel: the name of a panel file must end in .toml"),
        (["--output", "no/such/folder/mine.toml"], r"cannot write no/such/folder/mine.toml: No such file or directory"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_unusable_panel_is_refused(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger_lab.training.evaluation.new_panel import new_panel

    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=complaint) as raised:
        new_panel(["--task", "LedgerLab-Cartpole", *arguments])
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())
