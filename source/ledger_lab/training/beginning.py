"""``train.py --checkpoint``: finds the checkpoint that a run starts with, and what it cost and left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from isaaclab.managers import SceneEntityCfg
from isaaclab.sensors import SensorBaseCfg

from ledger_lab.errors import UserError
from ledger_lab.panels import Panel, VerdictRule, few_differences
from ledger_lab.panels.carried import left_budget
from ledger_lab.panels.direct import is_direct, own_settings
from ledger_lab.panels.physics import is_newton
from ledger_lab.reports import summarize_run
from ledger_lab.reports.facts import RunFacts
from ledger_lab.tasks.pretrained import shipped_checkpoint
from ledger_lab.tasks.recipes.settings import read_setting
from ledger_lab.tasks.registry import require_task
from ledger_lab.training.checkpoints.candidate import declared_configs, resolve_candidate
from ledger_lab.training.checkpoints.find import best_checkpoint
from ledger_lab.training.runners import Adapter
from ledger_lab.training.runners.description import plain_config
from ledger_lab.units import percent

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_NETWORK_FIELDS = ("hidden_dims", "activation", "observation_normalization", "action_bound")
"""Fields of a recipe that must be equal for two networks to mean the same; not all algorithms have all of them."""
_GROUP_SETTINGS = ("agent.obs_groups", "agent.params.env.obs_groups")
"""Settings that name the observation groups of each network, in order."""
_ACTION_SETTINGS = (
    *("agent.actor.distribution_cfg.class_name", "agent.actor.distribution_cfg.std_type", "agent.clip_actions"),
    *("agent.params.env.clip_actions", "agent.params.config.clip_actions"),
    *("agent.models.policy.clip_actions", "agent.models.policy.clip_mean_actions"),
)
"""Settings that determine which actions follow from the outputs of a network."""
_WITHOUT_MEANING = ("noise", "enable_corruption", "debug_vis")
"""Settings that add noise or markers to observations, and do not change their meaning."""
_SENSOR_SETTINGS = ("class_type", "prim_path", "pattern_cfg", "offset", "ray_alignment")
"""Settings of a sensor that determine the meaning of its readings."""


@dataclass(frozen=True)
class Beginning:
    """A checkpoint that a run starts with."""

    path: Path
    began_from: dict[str, Any]
    """The field of that name in :class:`ledger_lab.ledger.RunDeclared`."""
    error_budget: float
    """Error budget that the run of the checkpoint left, see :mod:`ledger_lab.panels.carried`; in (0, 1)."""

    def require_provable(self, panel: Panel) -> None:
        """Check that the error budget is enough to prove a target.

        Args:
            panel: The panel of the run.

        Raises:
            UserError: If not even success in every episode would prove it.
        """
        episodes = len(panel.episodes)
        if not VerdictRule(panel.target_success, self.error_budget).is_decidable(episodes):
            raise UserError(
                f"--checkpoint {self.path}: its run has {percent(self.error_budget, 2)} of error budget left, and "
                f"{episodes} episodes are then too few to prove a success rate of {panel.target_success:g}: "
                "use more seeds, a lower --target, or networks of another run"
            )


def find_beginning(
    name: str,
    log_root: Path,
    adapter: Adapter,
    env_cfg: ManagerBasedRLEnvCfg,
    agent_cfg: Any,
    *,
    trust_run: bool = False,
    allow_changed_code: bool = False,
) -> Beginning:
    """Find the checkpoint that a run starts with.

    Args:
        name: Checkpoint file, run id or run directory, or a task whose policy comes with the package.
        log_root: Root of the ledger.
        adapter: The library of the run.
        env_cfg: The environment's configuration.
        agent_cfg: The library's configuration, prepared by the adapter.
        trust_run: See :func:`~ledger_lab.training.checkpoints.candidate.declared_configs`.
        allow_changed_code: Whether the code of its observations and actions may have changed since its training.

    Raises:
        UserError: If there is no such checkpoint, the configuration of its agent has changed, its networks have another
            shape, its observations or actions have another meaning, or a newer version of LedgerLab has judged its run.
    """
    found = best_checkpoint(str(shipped_checkpoint(name)) if name in gym.registry else name, log_root)
    declared, path = found.run.declared, found.path
    library, algorithm = declared.rl_library, RunFacts(found.run).algorithm
    if (library, algorithm) != (adapter.library, adapter.dialect.algorithm):
        used = f"--rl_library {library} --algorithm {algorithm}" if algorithm else "a checkpoint that train.py saved"
        raise UserError(
            f"--checkpoint {name}: run {declared.run_id} was trained by {library} ({algorithm or 'another trainer'}), "
            f"and {adapter.library} ({adapter.dialect.algorithm}) cannot use its networks: use {used}"
        )
    what = f"--checkpoint {path}"
    require_task(declared.task, declared.rl_library, declared.agent)
    then_env, _ = configs = declared_configs(found.run, trust_run=trust_run)
    candidate = resolve_candidate(found, configs, "cpu", log_root, allow_changed_code=allow_changed_code)
    by_network = [read_setting(agent_cfg, setting) or {} for setting in _GROUP_SETTINGS]
    inputs = [names for networks in by_network for names in networks.values()]
    _require_known_first(_observation_groups(then_env), _observation_groups(env_cfg), inputs, what)
    if differences := few_differences(_actions(env_cfg), _actions(then_env)):
        raise UserError(f"{what}: its actions would mean something else: {differences} (now != then)")
    names = adapter.dialect.overrides
    own = (names[field] for field in _NETWORK_FIELDS if field in names)
    for setting in (*own, *_ACTION_SETTINGS, *_GROUP_SETTINGS):
        now, then = (read_setting(cfg, setting) for cfg in (agent_cfg, candidate.agent_cfg))
        if now != then:
            raise UserError(f"{what}: {setting} was {then} when it was trained, and is {now} now")
    try:
        left = left_budget(found.run)
    except ValueError as error:
        raise UserError(
            f"{what}: run {declared.run_id} was judged by version {declared.verdict_rule} of the verdict's rule, which "
            "is unknown here, and so is the error budget that it has left: use a newer version of LedgerLab"
        ) from error
    summary = summarize_run(found.run)
    earlier = declared.began_from or {}
    usd = (summary.declared_usd, earlier.get("usd", 0.0))
    began_from = {
        "run_id": declared.run_id,
        "task": declared.task,
        "checkpoint": found.saved.path,
        "sha256": found.saved.sha256,
        "env_steps": summary.env_steps + earlier.get("env_steps", 0),
        "wall_s": summary.wall_s + earlier.get("wall_s", 0.0),
        "usd": None if usd[0] is None or usd[1] is None else usd[0] + usd[1],
        "proof_panels": left.panels,
        **({"changed_code": candidate.changed_code} if candidate.changed_code else {}),
    }
    return Beginning(path.resolve(), began_from, left.budget)


type _Group = tuple[dict[str, Any], list[tuple[str, Any]]]
"""One group of observations: its own settings, and the name and meaning of each term, in order."""


def _observation_groups(env_cfg: ManagerBasedRLEnvCfg) -> dict[str, _Group]:
    """Return the observation groups of an environment, by name."""
    if is_direct(env_cfg):
        return {"all": ({}, [*_meaningful(own_settings(env_cfg)).items()])}
    groups = {}
    for name, group in vars(env_cfg.observations).items():
        if group is None:
            continue
        terms = {key: value for key, value in vars(group).items() if hasattr(value, "func")}
        layout = {key: value for key, value in vars(group).items() if value and key not in {*terms, *_WITHOUT_MEANING}}
        groups[name] = layout, [(key, _meaning(term, env_cfg)) for key, term in terms.items()]
    return groups


def _meaning(term: Any, env_cfg: ManagerBasedRLEnvCfg) -> list[Any]:  # noqa: ANN401 - of any manager
    """Return the settings that determine the meaning of a term: its own, and those of its sensors and commands."""
    settings = [_meaningful(term)]
    for value in (getattr(term, "params", None) or {}).values():
        entity = getattr(env_cfg.scene, value.name) if isinstance(value, SceneEntityCfg) else None
        if isinstance(entity, SensorBaseCfg):
            settings.append({key: each for key, each in _meaningful(entity).items() if key in _SENSOR_SETTINGS})
        elif isinstance(value, str) and (command := getattr(env_cfg.commands, value, None)) is not None:
            settings.append(_meaningful(command)["class_type"])
    return settings


def _meaningful(cfg: Any) -> dict[str, Any]:  # noqa: ANN401 - any of Isaac Lab's configurations
    """Return the settings of a configuration that determine a meaning; files are represented by their contents."""
    return {key: value for key, value in plain_config(cfg).items() if key not in _WITHOUT_MEANING}


def _actions(env_cfg: ManagerBasedRLEnvCfg) -> dict[str, Any]:
    """Return the action terms in order, each with the settings of its robot that determine its meaning."""
    actions: dict[str, Any] = {}
    if is_direct(env_cfg):
        return actions  # among the observations: a direct task does not tell its settings apart
    for name, term in vars(env_cfg.actions).items():
        if term is not None:
            robot = getattr(env_cfg.scene, term.asset_name)
            order = getattr(robot, "joint_ordering", None)
            actions[name] = {
                **_meaningful(term),
                "place": len(actions),
                "default_joint_pos": getattr(getattr(robot, "init_state", None), "joint_pos", None),
                "joint_ordering": order or ("newton" if is_newton(env_cfg) else "physx"),
            }
    return actions


def _require_known_first(
    then_groups: dict[str, _Group], now_groups: dict[str, _Group], inputs: Sequence[Sequence[str]], what: str
) -> None:
    """Check that the observations of a checkpoint are unchanged, and that new observations follow them.

    Args:
        then_groups: Observation groups that the checkpoint was trained with.
        now_groups: Observation groups of the run.
        inputs: For each network, the groups that form its input, in order.
        what: The flag and the checkpoint, for the error.

    Raises:
        UserError: If an observation is missing, changed or moved, or a group that is not the last input has grown.
    """
    for name, (layout, terms) in then_groups.items():
        now_layout, now_terms = now_groups.get(name, (layout, []))
        if now_layout != layout:
            raise UserError(f"{what}: group {name} is combined differently: {layout} in its training, {now_layout} now")
        for number, (term, meaning) in enumerate(terms):
            here = now_terms[number : number + 1]
            if here != [(term, meaning)]:
                found = f"{here[0][0]!r}" if here and here[0][0] != term else "another one" if here else "nothing"
                raise UserError(
                    f"{what}: it was trained with {name}.{term} where the task has {found}: its observations must come "
                    "first, and unchanged"
                )
        for names in inputs:
            if name in names[:-1] and len(now_terms) > len(terms):
                raise UserError(f"{what}: {name} has grown, and {names[-1]} follows it: only the last group can grow")
