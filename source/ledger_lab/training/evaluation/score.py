"""Scores checkpoints in a simulation without training."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from ledger_lab.ledger import PanelResult, Row
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.panels import Panel, PanelIdentity
from ledger_lab.panels.capacity import capacity_told
from ledger_lab.panels.ground import Ground
from ledger_lab.panels.physics import exactness
from ledger_lab.panels.scoring import score_policies
from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.training.checkpoints.candidate import Candidate
from ledger_lab.training.runners.physics_engine import fitting_environments
from ledger_lab.training.runners.session import environment, held_out_config, recorded_physics
from ledger_lab.units import counted

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


MAX_SLOTS = 16384
"""Largest number of episodes that run at once. Further checkpoints are scored in further rounds of the same
simulation."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A simulation in which checkpoints are scored on a panel."""

    name: str
    """Overrides that distinguish the simulation from the declared simulation; empty for the declared simulation."""
    task: str
    env_cfg: ManagerBasedRLEnvCfg
    ground: Ground
    """Ground of the episodes, if the terrain is generated."""
    identity: PanelIdentity
    """The panel's identity in this simulation."""
    code: dict[str, str]
    """Hashes of the code that a score depends on, by module."""

    def config(self, held_out: int) -> ManagerBasedRLEnvCfg:
        """Return the configuration with held-out slots.

        Args:
            held_out: Number of held-out slots.
        """
        return held_out_config(self.env_cfg, held_out, ground=self.ground)


def score_checkpoints(
    candidates: Sequence[Candidate],
    simulation: Simulation,
    panel: Panel,
    clock: PhaseClock,
    append: Callable[[Row], None],
    console: Console,
    on_begin: Callable[[], None],
) -> list[PanelResult]:
    """Score all candidates on every episode of a panel in one pass.

    Args:
        candidates: The checkpoints.
        simulation: The simulation.
        panel: The panel.
        clock: The evaluation's clock.
        append: Writes the row with the capacities that the simulation needed.
        console: Shows the progress.
        on_begin: Called when the checks are over, before the first step.

    Returns:
        One result per candidate.

    Raises:
        UserError: If a checkpoint can't be loaded or has changed, or a seed does not determine the task's episodes.
    """
    for candidate in candidates:
        candidate.require_unchanged()
    episodes = len(panel.episodes)
    most = MAX_SLOTS
    if (fitting := fitting_environments(simulation.task, simulation.env_cfg)) is not None:
        most = min(most, fitting)
    places = min(len(candidates), max(1, most // episodes))
    rounds = -(-len(candidates) // places)
    cfg = simulation.config(places * episodes)
    title = f"scoring {counted(len(candidates), 'checkpoint')} × {episodes} episodes"
    if simulation.name:
        title += f" with {simulation.name}"
    with (
        environment(simulation.task, cfg) as env,
        recorded_physics(env),
        HeldOutSlots(env, panel, places=places).attached() as slots,
        capacity_told(slots, clock, append),
    ):
        slots.reset()
        policies = [c.adapter.load_policy(c.path, env, c.agent_cfg) for c in candidates]
        on_begin()
        total = rounds * (1 + slots.horizon)
        with Progress(console, title, total) as progress:
            steps = itertools.count(1)
            scores = score_policies(slots, policies, lambda: progress.advance(next(steps)))
            progress.advance(total)
    return [
        PanelResult(
            run_id=candidate.run_id,
            checkpoint=candidate.saved.path,
            checkpoint_sha256=candidate.saved.sha256,
            panel=panel.name,
            panel_id=simulation.identity.id,
            purpose="evaluation",
            proof=None,
            needed=None,
            exactness=exactness(cfg),
            device=cfg.sim.device,
            wall_ns=clock.wall_ns(),
            invalid=score.invalid,
            changed_code=candidate.changed_code,
            replayed=slots.replayed,
            starts=score.starts,
            outcomes=score.outcomes,
        )
        for candidate, score in zip(candidates, scores, strict=True)
    ]
