"""What the tests of the tasks do to every robot, each in one simulation per physics engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Panel, load_panel
from ledger_lab.panels.perturbations import Perturbation, Push
from tests.fakes.held_out import task_cfg

ENGINES = ("newton_mujoco", pytest.param("ovphysx", marks=pytest.mark.thorough))
"""The default physics engine on a CPU, and the one that shares no code with it.

MuJoCo-Warp is slow on a CPU, and has the solver and the contacts of the first: ``tests/panels/test_physical.py`` and
``tests/mujoco_cpu`` compare both.
"""


@contextmanager
def simulated(task: str, physics: str, envs: int, *overrides: str) -> Iterator[Any]:
    """Open a simulation of a task on the CPU, without noise in what the policy sees."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import environment, recorded_physics, simulation_app

    registered_tasks()
    cfg = task_cfg(task, f"physics={physics}", "env.observations.policy.enable_corruption=False", *overrides)
    cfg.seed, cfg.scene.num_envs = 5, envs
    with simulation_app(cfg, {"device": "cpu"}), environment(task, cfg) as env, recorded_physics(env):
        yield env


@dataclass(frozen=True)
class Shaken:
    """What is asked of every task."""

    spaces: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    """Of the policy's observations, and of its actions."""
    starts: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    """Observations after three resets, the first and the last with the same seed, with motion before each."""
    finite: bool
    """Whether observations, rewards and the state of every asset were, in 200 steps of random actions."""

    def check(self, observations: int, actions: int, seeded: int | None = None) -> None:
        """Compare with what the task promises.

        Args:
            observations: Length of what the policy sees.
            actions: Length of an action.
            seeded: How many of the first observations a seed fixes, if not all.
        """
        envs = len(self.starts[0])
        assert self.spaces == ((envs, observations), (envs, actions))
        assert self.finite
        first, other, again = (start[:, :seeded] for start in self.starts)
        assert torch.allclose(first, again, atol=1e-5)
        assert not torch.isclose(first, other).all(dim=1).any()
        assert len(first.unique(dim=0)) == envs, "each robot has a start of its own"


def shaken(env: Any) -> Shaken:
    """Reset with seeds, then let random actions shake everything for 200 steps."""
    starts = []
    for seed in (4, 5, 6, 5):  # what Isaac Lab shows after the very first reset has no velocities yet
        starts.append(env.reset(seed=seed)[0]["policy"].clone())
        for _ in range(3):
            env.step(torch.ones(env.action_space.shape))
    generator, finite = torch.Generator().manual_seed(1), True
    for _ in range(200):
        observations, rewards, *_ = env.step(torch.randn(env.action_space.shape, generator=generator))
        assert observations["policy"].shape == env.observation_space["policy"].shape
        seen = [observations["policy"], rewards, *_tensors(env.unwrapped.scene.get_state())]
        finite &= all(bool(tensor.isfinite().all()) for tensor in seen)
    _, first, other, again = starts
    return Shaken((env.observation_space["policy"].shape, env.action_space.shape), (first, other, again), finite)


def _tensors(state: Any) -> list[torch.Tensor]:
    """Return all tensors of a nested state."""
    return [tensor for part in state.values() for tensor in _tensors(part)] if isinstance(state, dict) else [state]


@dataclass(frozen=True)
class Told:
    """What an action term told the motors of its joints in one environment step."""

    said: dict[str, Any]
    """The term, as a contract describes it."""
    sent: torch.Tensor
    """Targets, shape (times that it told them, num_envs, joints)."""
    lawful: torch.Tensor
    """The same by the law of the contract."""


def told(env: Any) -> list[Told]:
    """Let random actions move robots for an environment step, and return what each action term told the motors."""
    from ledger_lab.training.checkpoints.contract import describe_interface

    base = env.unwrapped
    terms = describe_interface(env, ["policy"])["actions"]
    actions = torch.randn(env.action_space.shape, generator=torch.Generator().manual_seed(3))
    sent: list[list[torch.Tensor]] = [[] for _ in terms]
    lawful: list[list[torch.Tensor]] = [[] for _ in terms]
    apply = base.action_manager.apply_action

    def listen() -> None:
        apply()
        for number, said in enumerate(terms):
            robot = base.scene[said["settings"]["asset_name"]]
            joints = [robot.joint_names.index(name) for name in said["joint_names"]]
            target = getattr(robot.data, f"{said['target']}_target").torch
            sent[number].append(target[:, joints].clone())
            lawful[number].append(_by_law(said, actions[:, slice(*said["slice"])], robot.data, joints))

    base.action_manager.apply_action = listen
    try:
        env.step(actions)
    finally:
        del base.action_manager.apply_action
    return [Told(said, *map(torch.stack, pair)) for said, *pair in zip(terms, sent, lawful, strict=True)]


def _by_law(said: dict[str, Any], actions: torch.Tensor, data: Any, joints: list[int]) -> torch.Tensor:
    """Return targets as a contract without clips says, shape (num_envs, joints)."""
    assert said["clip"] is None
    if said["law"] == "binary":
        closed, opened = (
            torch.tensor(
                [next(v for p, v in said["settings"][how].items() if re.fullmatch(p, n)) for n in said["joint_names"]]
            )
            for how in ("close_command_expr", "open_command_expr")
        )
        return torch.where(actions < 0, closed, opened)
    assert said["law"] == "affine"
    targets = torch.as_tensor(said["offset"]) + torch.as_tensor(said["scale"]) * actions
    return targets + getattr(data, said["relative_to"]["data"]).torch[:, joints] if said["relative_to"] else targets


def robust(name: str) -> Panel:
    """Return the panel of cells that belongs to a panel, with one short episode each, in which pushes come early."""
    panel = load_panel(f"{name.removesuffix('_v1')}_robust_v1")
    cells = tuple(replace(cell, perturbations=tuple(map(_early, cell.perturbations))) for cell in panel.cells)
    return replace(panel, cells=cells, seeds=panel.seeds[:1], episode_length_s=0.6, hold_s=0.2)


def _early(part: Perturbation) -> Perturbation:
    """Return a perturbation that comes within a fifth of a second, if it comes at intervals."""
    return msgspec.structs.replace(part, interval_s=(0.1, 0.2)) if isinstance(part, Push) else part


@dataclass(frozen=True)
class Repeats:
    """Outcomes of the same panel, taken twice."""

    first: Outcomes
    again: Outcomes
    bitwise: bool
    """Whether the engine is said to repeat it bit for bit."""

    def check(self, unfelt: frozenset[str] = frozenset()) -> None:
        """Require that each cell changes its episode, and that the outcomes repeat.

        Args:
            unfelt: Cells that change nothing here.
        """
        ways = dict(zip(self.first.cell, self.first.fingerprint, strict=True))
        felt = [cell for cell in ways if cell not in unfelt]
        assert len({ways[cell] for cell in felt}) == len(felt), ways
        assert self.first.cell == self.again.cell
        if self.bitwise:
            assert self.first == self.again


def taken_twice(env: Any, panel: Panel) -> Repeats:
    """Let the last slots take a panel twice, beside training slots that move at random."""
    from ledger_lab.panels.physics import exactness
    from ledger_lab.panels.slots import HeldOutSlots

    training = env.unwrapped.num_envs - len(panel.episodes)
    shape = (training, env.unwrapped.action_manager.total_action_dim)
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(env.observation_space["policy"].shape[1], shape[1], generator=generator)
    outcomes = []
    with HeldOutSlots(env, panel, training).attached() as slots, torch.inference_mode():
        slots.reset()
        for _ in range(2):
            slots.begin([lambda seen: torch.tanh(seen["policy"] @ weights / len(weights) ** 0.5)])
            while not slots.idle:
                slots.step(torch.randn(shape, generator=generator))
            outcomes += slots.outcomes()
    return Repeats(outcomes[0], outcomes[1], exactness(env.unwrapped.cfg) == "bitwise")
