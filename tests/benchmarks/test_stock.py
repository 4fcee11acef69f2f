"""Isaac Lab's tasks use our robots, need no network, and are stepped in turn with ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from isaaclab.utils.dict import class_to_dict

from benchmarks.stock import bench_stock
from benchmarks.stock_steps import STOCK, stock_config


def leaves(value: object) -> list[object]:
    """Return all values of nested dictionaries and lists."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    return [value] if children is None else [leaf for child in children for leaf in leaves(child)]


@pytest.mark.parametrize("task", STOCK)
def test_a_stock_task_uses_our_robot_and_ground(task: str) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    stock, (ours, _) = stock_config(task), resolve_configs(task, "rsl_rl", [])
    assert type(stock) is not type(ours) and stock.scene.robot.spawn == ours.scene.robot.spawn
    assert class_to_dict(stock.scene.robot.actuators) == class_to_dict(ours.scene.robot.actuators)
    assert class_to_dict(stock.sim) == class_to_dict(ours.sim)
    assert (stock.decimation, stock.episode_length_s) == (ours.decimation, ours.episode_length_s)
    spawned = [class_to_dict(part.spawn) for part in vars(stock.scene).values() if getattr(part, "spawn", None)]
    assert len(spawned) >= 2
    texts = [leaf for leaf in leaves(spawned) if isinstance(leaf, str)]
    assert not [text for text in texts if "://" in text], "nothing comes from the network"


@pytest.mark.parametrize("place", ["missing/found.json", "."])
def test_an_unwritable_findings_file_is_refused_before_the_work(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench_stock(["--tasks", "LedgerLab-Cartpole", "--json", str(tmp_path / place)])
    assert "name one in a directory that exists" in capsys.readouterr().err
