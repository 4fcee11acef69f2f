"""Videos of single episodes of a scored checkpoint."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from isaaclab.visualizers import VisualizerCfg
from rich.console import Console

from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Panel
from ledger_lab.panels.physics import is_newton
from ledger_lab.panels.scoring import score_policies
from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.training.checkpoints.candidate import Candidate
from ledger_lab.training.checkpoints.film import recorded, use_studio_viewer
from ledger_lab.training.evaluation.score import Simulation
from ledger_lab.training.runners.session import environment

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


_FRAMES_PER_S = 30
"""Frame rate of the videos; it is low because drawing on a CPU takes much longer than simulating."""


def worst_episodes(outcomes: Sequence[Outcomes], count: int) -> list[tuple[int, int]]:
    """Find the worst episodes: failed ones first, then the shortest, then those with the lowest return.

    Args:
        outcomes: Outcomes of one policy in several simulations.
        count: Number of episodes to find.

    Returns:
        Index of the simulation and index of the episode in its outcomes, the worst first.
    """
    ranked = [
        (success, steps, -math.inf if gained is None else gained, place, episode)
        for place, each in enumerate(outcomes)
        for episode, (success, steps, gained) in enumerate(
            zip(each.success, each.steps, each.episode_return, strict=True)
        )
    ]
    return [(place, episode) for *_, place, episode in sorted(ranked)[:count]]


def record_episodes(
    candidate: Candidate,
    simulation: Simulation,
    panel: Panel,
    outcomes: Outcomes,
    episodes: Sequence[int],
    viewer: str,
    console: Console,
) -> None:
    """Replay episodes one by one, and record each to a file that is named after its cell and seed.

    Args:
        candidate: The checkpoint.
        simulation: The simulation in which it was scored.
        panel: The panel on which it was scored.
        outcomes: Its outcomes.
        episodes: Indices of the episodes in the outcomes.
        viewer: One of Isaac Lab's viewers.
        console: Shows the progress and the files.
    """
    folder = video_folder(candidate, simulation, panel)
    cells = {cell.name: cell for cell in panel.cells}
    with environment(simulation.task, _filmed_config(simulation)) as env:
        every = max(1, round(1 / (env.unwrapped.step_dt * _FRAMES_PER_S)))
        for episode in episodes:
            cell, seed = outcomes.cell[episode], outcomes.seed[episode]
            path = folder / _file_name(f"{candidate.path.stem}_{cell}_{seed}.mp4")
            alone = replace(panel, cells=(cells[cell],), seeds=(seed,))
            with HeldOutSlots(env, alone).attached() as slots:
                slots.reset()
                policy = candidate.adapter.load_policy(candidate.path, env, candidate.agent_cfg)
                title = " · ".join(part for part in ("recording", simulation.name, cell, f"seed {seed}") if part)
                with (
                    Progress(console, title, 1 + outcomes.steps[episode]) as progress,
                    recorded(env, path, candidate.run_dir, viewer, 1 + slots.horizon, every),
                ):
                    steps = itertools.count(1)
                    (score,) = score_policies(slots, [policy], lambda: progress.advance(next(steps)))  # noqa: B023
            again = score.outcomes
            same = again.fingerprint[0] == outcomes.fingerprint[episode]
            console.print(
                f"{'success' if again.success[0] else 'failure'} after {again.steps[0]} steps ({again.ended_by[0]}"
                f"{'' if same else '; not the scored episode bit for bit'}): {path}",
                markup=False,
                soft_wrap=True,
            )


def video_folder(candidate: Candidate, simulation: Simulation, panel: Panel) -> Path:
    """Create the folder for videos of a checkpoint, unless it exists.

    Args:
        candidate: The checkpoint.
        simulation: The simulation.
        panel: The panel.

    Raises:
        UserError: If it can't be created, or there is a link in the run's directory on the way.
    """
    return candidate.folder("videos", panel.name, *filter(None, (_file_name(simulation.name),)))


def _filmed_config(simulation: Simulation) -> ManagerBasedRLEnvCfg:
    """Return the configuration of a simulation that shows a single slot."""
    cfg = simulation.config(1)
    if not is_newton(cfg):
        cfg.scene.num_envs = 1  # other engines place slots side by side, and the camera looks at the origin
    viewer = cfg.sim.default_visualizer_cfg or VisualizerCfg()
    cfg.sim.default_visualizer_cfg = viewer.replace(visible_env_indices=[0])
    use_studio_viewer(cfg)
    return cfg


def _file_name(text: str) -> str:
    """Return a text without the characters that don't belong in a file name."""
    return re.sub(r"[^\w.=+-]+", "_", text)
