"""A direct-workflow environment as the rest of LedgerLab sees it: with managers.

Isaac Lab's manager-based tasks have managers, which tell how an episode ends, what a policy sees and what an event
changes. A direct task has methods of its own instead (``_get_dones``, ``_get_observations``, ``_reset_idx``).
:func:`give_managers` gives it managers that read these methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from isaaclab.envs import DirectRLEnv

TERMINATED, TIME_OUT = "terminated", "time_out"
"""What ends an episode: the two results of ``_get_dones``."""

STEP_METHODS = ("_pre_physics_step", "_apply_action", "_get_dones", "_get_rewards", "_get_observations")
"""Methods of a direct task that Isaac Lab calls in each step, for all environments at once."""

WHOLE = "observations"
"""Name of the only term of a group that is one tensor."""

_OF_EVERY_TASK = frozenset(
    ("decimation", "episode_length_s", "events", "is_finite_horizon", "log_dir", "num_rerenders_on_reset", "scene")
    + ("rerender_on_reset", "seed", "sim", "ui_window_class_type", "video_recorders", "viewer", "wait_for_textures")
    + ("xr",)
)
"""Settings of Isaac Lab's configuration of direct tasks that are described elsewhere, or change no episode."""

_OF_EVERY_ENVIRONMENT = frozenset(
    ("common_step_counter", "has_debug_vis_implementation", "has_rtx_sensors", "render_enabled", "render_mode")
    + ("_is_closed", "_physics_handles_decimation", "_sim_step_counter")
)
"""Numbers and texts that Isaac Lab's class of direct environments keeps."""


def own_settings(env_cfg: Any) -> dict[str, Any]:  # noqa: ANN401 - any configuration
    """Return the settings that belong to a direct task alone, rewards included; empty for a manager-based task."""
    if not is_direct(env_cfg):
        return {}
    return {name: value for name, value in vars(env_cfg).items() if name not in _OF_EVERY_TASK}


def is_direct(base: Any) -> bool:  # noqa: ANN401 - any environment
    """Tell whether an environment, or the configuration of one, belongs to the direct workflow."""
    return any(kind.__name__ in ("DirectRLEnv", "DirectRLEnvCfg") for kind in type(base).__mro__)


def plain_values(base: Any) -> dict[str, Any]:  # noqa: ANN401 - any environment
    """Return the numbers and texts that a direct task itself keeps, by attribute; empty for a manager-based task."""
    if not is_direct(base):
        return {}
    return {
        name: value
        for name, value in vars(base).items()
        if isinstance(value, bool | int | float | str) and name not in _OF_EVERY_ENVIRONMENT
    }


def shared_state(base: Any) -> dict[str, Any]:  # noqa: ANN401 - any environment
    """Return what a direct task itself keeps, without objects and tensors with a row per environment."""
    own = {
        name: value for name, value in vars(base).items() if name not in ("extras", "obs_buf", *_OF_EVERY_ENVIRONMENT)
    }
    return dict(_shared(own, base.num_envs, depth=3)) if is_direct(base) else {}


def _shared(value: Any, num_envs: int, depth: int) -> Any:  # noqa: ANN401 - any value
    """Return a value without objects and tensors with a row per environment, down to a depth."""
    if isinstance(value, dict | list | tuple) and depth:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: _shared(each, num_envs, depth - 1) for key, each in pairs}
    if isinstance(value, torch.Tensor):
        return None if num_envs in value.shape else value
    return value if isinstance(value, bool | int | float | str) else None


class _Manager:
    """A manager without terms."""

    def __init__(self) -> None:
        """Have none."""
        self.active_terms: Any = []
        self._terms: dict[str, Any] = {}
        self._term_names: list[str] = []
        self._term_cfgs: list[Any] = []

    def compute(self, *_: Any, **__: Any) -> Any:
        """Do nothing."""

    def reset(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return no figures."""
        return {}


class _Events(_Manager):
    """The events of a task that has none."""

    def __init__(self) -> None:
        """Have none, in no mode."""
        super().__init__()
        self.active_terms = self._mode_term_names = dict[str, list[str]]()
        self._mode_term_cfgs: dict[str, list[Any]] = {}
        self._reset_term_last_triggered_step_id: list[torch.Tensor] = []
        self._reset_term_last_triggered_once: list[torch.Tensor] = []
        self._interval_term_time_left: list[torch.Tensor] = []

    def apply(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class _Actions(_Manager):
    """The actions of a task, which its methods take as a whole."""

    def __init__(self, base: DirectRLEnv) -> None:
        """Read their number."""
        super().__init__()
        self._base = base
        self.total_action_dim = gym.spaces.flatdim(base.single_action_space)

    def process_action(self, actions: torch.Tensor) -> None:
        """Pass actions on to the task."""
        self._base._pre_physics_step(actions)

    def apply_action(self) -> None:
        """Let the task apply them."""
        self._base._apply_action()


class _Terminations(_Manager):
    """The two ways in which an episode ends."""

    def __init__(self, base: DirectRLEnv) -> None:
        """Read what ``_get_dones`` returns from now on."""
        super().__init__()
        self._base = base
        self._terminated_buf, self._truncated_buf = base.reset_terminated, base.reset_time_outs
        self._term_names = self.active_terms = [TERMINATED, TIME_OUT]
        self._term_cfgs = [
            SimpleNamespace(func=_Result(base, "_get_dones", place), params={}, time_out=bool(place))
            for place in (0, 1)
        ]
        self._term_dones = torch.zeros(base.num_envs, 2, dtype=torch.bool, device=base.device)
        self._last_episode_dones = self._term_dones.clone()

    def compute(self) -> torch.Tensor:
        """Note how episodes end in this step; return which end, of shape (num_envs,)."""
        torch.stack((self._terminated_buf, self._truncated_buf), dim=1, out=self._term_dones)
        return self._base.reset_buf

    def get_term(self, name: str) -> torch.Tensor:
        """Return where a term ends the episode; shape (num_envs,)."""
        return self._term_dones[:, self._term_names.index(name)]

    def get_term_cfg(self, name: str) -> Any:
        """Return a term."""
        return self._term_cfgs[self._term_names.index(name)]


class _Observations(_Manager):
    """The groups of observations, each with one term, or with a term per key if the group is a dictionary."""

    def __init__(self, base: DirectRLEnv) -> None:
        """Read the spaces of the groups.

        Isaac Lab adds noise to the group of the policy only.
        """
        super().__init__()
        self._base = base
        noise = None
        if base.cfg.observation_noise_model:
            noise = base._observation_noise_model = _Noise(base._observation_noise_model)
        spaces = base.single_observation_space.spaces
        parts = {
            group: dict(space.spaces) if isinstance(space, gym.spaces.Dict) else {WHOLE: space}
            for group, space in spaces.items()
        }
        self.active_terms = self._group_obs_term_names = {group: list(terms) for group, terms in parts.items()}
        self.group_obs_concatenate = {group: not isinstance(spaces[group], gym.spaces.Dict) for group in parts}
        self.group_obs_term_dim = {
            group: [tuple(space.shape or ()) for space in terms.values()] for group, terms in parts.items()
        }
        self.group_obs_dim = {group: shapes[0] for group, shapes in self.group_obs_term_dim.items()}
        self._group_obs_time_major = dict.fromkeys(parts, False)
        self._group_obs_term_cfgs = {
            group: [
                SimpleNamespace(
                    func=_Result(base, "_get_observations", group, *(() if name == WHOLE else (name,))),
                    params={}, noise=noise if group == "policy" else None, modifiers=None, clip=None, scale=None,
                    delay_min_lag=0, delay_max_lag=0, history_length=0,
                )
                for name in terms
            ]
            for group, terms in parts.items()
        }  # fmt: skip

    def compute(self, *_: Any, **__: Any) -> Any:
        """Return all observations."""
        return self._base._compute_observations()


class _Result:
    """A part of what a method of the task returns, as a term."""

    def __init__(self, base: DirectRLEnv, name: str, *keys: Any) -> None:
        """Read a part of the result.

        Args:
            base: The environment, unwrapped.
            name: Name of the method.
            keys: Keys that lead to the part.
        """
        method = getattr(base, name)
        self._base, self._name, self._keys = base, name, keys
        self.__module__, self.__qualname__ = method.__module__, method.__qualname__
        self.__doc__ = method.__doc__

    def __call__(self, *_: Any) -> Any:
        """Return the part now."""
        found = getattr(self._base, self._name)()
        for key in self._keys:
            if isinstance(found, dict) and key not in found:
                raise UserError(
                    f"{self._name} of the task returns no {key!r}, which the spaces in its configuration promise: "
                    "return it, or leave it out of env.observation_space or env.state_space"
                )
            found = found[key]
        return found


class _Noise:
    """The noise of the observations: :attr:`func` can be replaced."""

    def __init__(self, model: Any) -> None:
        """Start with the task's own noise."""
        self._model = self.func = model

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        """Return observations with noise."""
        noisy: torch.Tensor = self.func(data)
        return noisy

    def reset(self, env_ids: Any = None) -> None:
        """Draw what stays constant in an episode."""
        self._model.reset(env_ids)


def give_managers(base: DirectRLEnv) -> None:
    """Give a direct-workflow environment managers that read its methods.

    Args:
        base: The environment, unwrapped.

    Raises:
        UserError: If its actions are not a box.
    """
    if not isinstance(base.single_action_space, gym.spaces.Box):
        raise UserError(
            f"the actions of the task are {type(base.single_action_space).__name__}: choose a task with Box actions, "
            "because the policies here decide on numbers"
        )
    reset_ended = base._reset_envs_from_buffer
    base.action_manager, base.termination_manager = _Actions(base), _Terminations(base)
    base.observation_manager = _Observations(base)
    base.reward_manager, base.curriculum_manager, base.command_manager = _Manager(), _Manager(), _Manager()
    if not base.cfg.events:
        base.event_manager = _Events()

    def reset_from_buffer() -> torch.Tensor | None:
        base.reset_buf = base.termination_manager.compute()
        return reset_ended()

    base._reset_envs_from_buffer = reset_from_buffer


def managed(env_cfg: Any, names: Sequence[str]) -> dict[str, Any]:  # noqa: ANN401 - any configuration
    """Return parts of a configuration by name; what a direct task calls like the terms of a manager is its own."""
    own = own_settings(env_cfg)
    return {name: part for name in names if name not in own and (part := getattr(env_cfg, name, None)) is not None}


def step_calls(base: DirectRLEnv) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the methods that Isaac Lab calls in each step, with functions that call them once."""
    zeros = torch.zeros(base.num_envs, base.action_manager.total_action_dim, device=base.device)
    if base.cfg.action_noise_model:
        yield "_action_noise_model", lambda: base._action_noise_model(zeros)
    for name in STEP_METHODS:
        method = getattr(base, name)
        yield name, functools.partial(method, zeros) if name == "_pre_physics_step" else method
