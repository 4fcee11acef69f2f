"""Checks of a panel against a task, before anything is simulated."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from ledger_lab.errors import UserError, nearest
from ledger_lab.panels import ERROR_BUDGET, Panel, VerdictRule, load_panel
from ledger_lab.panels.direct import managed
from ledger_lab.panels.physics import is_newton, physics_name
from ledger_lab.units import percent

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


_EVEN = 0.5
"""Chance of a good policy below which a panel is worth a warning."""


OF_ALL_ENVIRONMENTS = frozenset(
    {
        "isaaclab.envs.mdp.actions.rmpflow_task_space_actions:RMPFlowAction",
        "isaaclab.envs.mdp.events:randomize_visual_color",
        "isaaclab.envs.mdp.events:randomize_visual_texture_material",
        "isaaclab_tasks.contrib.keyboard.mdp.commands.typing_commands:LetterTypingCommand",
        "isaaclab_tasks.contrib.nist.mdp.events:reset_end_effector_around_asset",
        "isaaclab_tasks.contrib.stack.mdp.stack_events:randomize_rigid_objects_in_focus",
        "isaaclab_tasks.contrib.stack.mdp.stack_events:randomize_scene_lighting_domelight",
        "isaaclab_tasks.contrib.stack.mdp.stack_events:randomize_visual_texture_material",
        "isaaclab_tasks.core.lift.mdp.events:conditional_reset",
        "isaaclab_tasks.core.lift.mdp.observations:object_point_cloud_b",
        "isaaclab_tasks.core.reorient.mdp.observations:ShadowHandCameraFeatures",
    }
)
"""Terms of Isaac Lab whose state all environments share, or that draw outside of torch's stream."""

_GRAVITY = "isaaclab.envs.mdp.events:randomize_physics_scene_gravity"
"""An event that changes single worlds of Newton, but always all environments of other engines."""


def task_panel(task: str, name: str | None, target: float | None = None) -> Panel:
    """Load the panel of a task, and check that the panel fits the task.

    Args:
        task: Gymnasium id.
        name: Name or file of the panel; ``None`` if no panel was given.
        target: Target success in place of the panel's.

    Raises:
        UserError: If there is no panel, or it belongs to another task.
    """
    if name is None:
        raise UserError(
            f"task {task} comes without a panel: name one with --panel FILE.toml, or write one with "
            f"./isaaclab.sh -p scripts/new_panel.py --task {shlex.quote(task)}"
        )
    panel = load_panel(name)
    if panel.task != task:
        raise UserError(f"panel {panel.name} is for task {panel.task}, not {task}: name another panel with --panel")
    return panel if target is None else replace(panel, target_success=target)


def require_judgeable(panel: Panel, env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Check that a panel's episodes can run in an environment, and are enough for a verdict.

    Args:
        panel: The panel.
        env_cfg: Resolved configuration.

    Raises:
        UserError: If the episodes can't run, or are too few.
    """
    require_takeable(panel, env_cfg)
    if not VerdictRule(panel.target_success).is_decidable(len(panel.episodes)):
        raise UserError(
            f"panel {panel.name}: {len(panel.episodes)} episodes are too few to prove a success of "
            f"{panel.target_success:g}: use more seeds, or a lower --target"
        )


@dataclass(frozen=True)
class Prospects:
    """How likely a good policy is to be proven by the first panel of its proof."""

    needed: int
    """Successes that the first proof of a run needs."""
    episodes: int
    good: float
    """True success rate of a policy that fails half as often as the target permits."""
    chance: float
    """Probability that this policy passes."""
    target: float

    @classmethod
    def of(cls, target: float, episodes: int, error_budget: float = ERROR_BUDGET) -> Self:
        """Compute the prospects of a panel.

        Args:
            target: Target in (0, 1].
            episodes: Episodes of the panel, at least 1.
            error_budget: Error budget of the run, in (0, 1).
        """
        rule, good = VerdictRule(target, error_budget), (1 + target) / 2
        chance = rule.first_pass_chance(good, episodes)
        return cls(rule.first_needs(episodes), episodes, good, chance, target)

    def __str__(self) -> str:
        """Return a line for people."""
        return (
            f"the first proof needs {self.needed} of {self.episodes} fresh episodes to prove {100 * self.target:g} %; "
            f"a policy of {100 * self.good:g} % passes it with a chance of {percent(self.chance, 0)}"
        )

    @property
    def warning(self) -> str | None:
        """Advice for a panel with less than even chances; ``None`` for others."""
        if self.chance >= _EVEN:
            return None
        return (
            f"with less than {percent(_EVEN, 0)}, most good policies need several panels: more episodes, or a lower "
            "target, would be better"
        )


def require_takeable(panel: Panel, env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Check that a panel's episodes can run in an environment.

    Args:
        panel: The panel.
        env_cfg: Resolved configuration.

    Raises:
        UserError: If the task has parts that a seed does not determine, a cell perturbs a part that the scene does not
            have, or the length of the episodes does not fit.
    """
    require_seedable(env_cfg)
    _require_assets(panel, env_cfg)
    step_s = env_cfg.sim.dt * env_cfg.decimation
    if round(panel.episode_length_s / step_s) < 1:
        raise UserError(
            f"panel {panel.name}: episode_length_s {panel.episode_length_s} is shorter than one step: set a longer time"
        )
    if panel.episode_length_s > env_cfg.episode_length_s + step_s / 2:
        raise UserError(
            f"panel {panel.name}: episode_length_s {panel.episode_length_s} is longer than the task's own episodes of "
            f"{env_cfg.episode_length_s} s: shorten it, or set env.episode_length_s"
        )


def _require_assets(panel: Panel, env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Refuse cells that perturb a part which the scene doesn't have."""
    known = [
        name for name, part in vars(env_cfg.scene).items() if hasattr(part, "spawn") and hasattr(part, "init_state")
    ]
    for cell in panel.cells:
        for perturbation in cell.perturbations:
            asset = getattr(perturbation, "asset", None)
            if asset is not None and asset not in known:
                raise UserError(
                    f"panel {panel.name}: cell {cell.name!r} perturbs {asset!r}, which the scene does not have: "
                    f'{nearest(asset, known)}; name a part of the scene with asset = "NAME"'
                )


def require_seedable(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Refuse tasks with parts that a reset does not return to a state determined by a seed.

    A term whose random numbers cannot be determined by a seed is found later, when it draws them.

    Args:
        env_cfg: Resolved configuration of the environment.

    Raises:
        UserError: If the task has such a part.
    """
    for leak in _leaks(env_cfg):
        raise UserError(
            f"this task cannot be scored on a panel, because its {leak} would not depend on the seed alone: train with "
            "--no_eval"
        )


def _leaks(env_cfg: ManagerBasedRLEnvCfg) -> Iterator[str]:
    """Yield descriptions of everything that a seed does not determine.

    Isaac Lab gives each slot its variant of an asset when it builds the scene, in blocks from the first slot to the
    last. Training slots would get other variants than held-out slots.
    """
    from isaaclab.cloner import num_spawn_variants

    for name, event in _terms(env_cfg.events):
        if event.mode == "prestartup":
            yield f"prestartup event {name!r} (drawn once, before the simulation starts)"
    if getattr(env_cfg, "compute_final_obs", False):
        yield "random observations (env.compute_final_obs computes them once more at every reset)"
    for name, entity in _terms(env_cfg.scene):
        for kind in ("Deformable", "Cable", "Collection", "SurfaceGripper"):
            if kind in type(entity).__name__:
                yield f"scene entity {name!r} ({type(entity).__name__})"
        if num_spawn_variants(getattr(entity, "spawn", None)) > 1:
            yield (
                f"choice among variants of scene entity {name!r} ({type(entity.spawn).__name__}; choose one "
                "of them, with presets=NAME if the task has presets)"
            )
    if len(env_cfg.scene.clone_cfg.clone_combinations) > 1:
        yield "choice among env.scene.clone_cfg.clone_combinations"
    for part, terms in managed(env_cfg, ("actions", "commands", "events", "observations", "terminations")).items():
        for path, called in _called(terms, part):
            place = _place(called)
            name = place.rpartition(":")[2]
            if place in OF_ALL_ENVIRONMENTS:
                yield f"{path} ({name}: all environments share its state or its random numbers)"
            if place == _GRAVITY and not is_newton(env_cfg):
                yield f"{path} ({name}: all environments of {physics_name(env_cfg)} have the same gravity)"


def _called(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of a group's terms, each with its path."""
    for name, term in _terms(group):
        called = getattr(term, "func", None) or getattr(term, "class_type", None)
        if called is None:
            yield from _called(term, f"{path}.{name}")
        else:
            yield f"{path}.{name}", called


def _place(called: Any) -> str:
    """Return the module and the name of a function or class, which a configuration may name by another module."""
    from isaaclab.utils.string import string_to_callable

    if isinstance(called, str):
        known = {place.rpartition(":")[2] for place in (*OF_ALL_ENVIRONMENTS, _GRAVITY)}
        if called.rpartition(":")[2] not in known:
            return called
        called = string_to_callable(str(called))
    return f"{getattr(called, '__module__', '')}:{getattr(called, '__qualname__', '')}"


def _terms(group: Any) -> list[tuple[str, Any]]:
    """Return the members of a group that are configurations themselves."""
    if group is None:
        return []
    members = group if isinstance(group, Mapping) else vars(group)
    return [(name, value) for name, value in members.items() if hasattr(value, "__dataclass_fields__")]
