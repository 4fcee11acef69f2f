"""Applies the perturbations of cells to held-out slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import UserError, nearest
from ledger_lab.panels.panel import Cell
from ledger_lab.panels.perturbations import Perturbation, Range
from ledger_lab.panels.physical import PhysicalParameters
from ledger_lab.panels.streams import SlotStreams
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_PHYSICAL = frozenset(
    {"mass", "center_of_mass", "friction", "joint_friction", "actuator_strength", "actuator_damping", "gravity_tilt"}
)


class Conditions:
    """The perturbations of all held-out slots of an environment.

    Quantities that stay constant in an episode (masses, delays, biases) are drawn when the slot gets its seed.
    Quantities that vary within an episode (noise, pushes) are drawn during the episode. Both are drawn from streams of
    the slot's own, separate from those of the task.
    """

    def __init__(self, env: ManagerBasedRLEnv, first: int, cells: Sequence[Cell]) -> None:
        """Prepare the perturbations; nothing is changed yet.

        Args:
            env: The environment, as ``gym.make`` returns it.
            first: The first held-out slot.
            cells: The cell of each held-out slot.

        Raises:
            UserError: If a cell perturbs a part that the task doesn't have.
        """
        self._base, self._first = env.unwrapped, first
        count, device = len(cells), self._base.device
        self._parts: list[tuple[Perturbation, NDArray[np.int64]]] = [
            (part, np.array([slot for slot, other in enumerate(cells) if other.name == cell.name], dtype=np.int64))
            for cell in {cell.name: cell for cell in cells}.values()
            for part in cell.perturbations
        ]
        kinds = {part.kind for part, _ in self._parts}
        self._physical: PhysicalParameters | None = None
        if kinds & _PHYSICAL:
            self._physical = PhysicalParameters(env, torch.arange(first, first + count, device=device))
        self._fixed, self._varying = SlotStreams(count), SlotStreams(count)
        self._delay = torch.zeros(count, dtype=torch.long, device=device)
        self._latency = torch.zeros(count, dtype=torch.long, device=device)
        self._spread = np.ones(count, dtype=np.float32)
        self._fresh = torch.ones(count, dtype=torch.bool, device=device)
        self._processed: list[torch.Tensor] = []
        longest = max((part.params["steps"][1] for part, _ in self._of("action_delay")), default=0)
        actions = self._base.action_manager.total_action_dim
        self._history = torch.zeros(longest + 1, count, actions, device=device)
        self._bias: list[tuple[str, Any, torch.Tensor]] = []
        self._writes: list[Callable[[], None]] = []
        for part, _ in self._of("push"):
            _require_joints(self._base, part)
        self._pushes = [(part, slots, np.zeros(len(slots))) for part, slots in self._of("push")]
        self._noise = [
            (place, slots, to_device(slots, device), std)
            for part, slots in self._of("observation_noise")
            for place, std in self._terms(part, "std")
        ]
        self._restores = bool(list(self._of("initial_state")))

    def attach(self, undo: ExitStack) -> None:
        """Intercept the actions on their way to the motors, if a cell has a control latency.

        Args:
            undo: Removes all changes when it closes.
        """
        undo.callback(self.restore)
        if not any(True for _ in self._of("control_latency")):
            return
        base, manager = self._base, self._base.action_manager
        longest = max(part.params["physics_steps"][1] for part, _ in self._of("control_latency"))
        if base._physics_handles_decimation:
            raise UserError(
                "control_latency is not possible with this engine, which does all physics steps of an action in one "
                "call: use action_delay"
            )
        if longest > base.cfg.decimation:
            raise UserError(
                f"control_latency of {longest} physics steps is longer than an action ({base.cfg.decimation} steps): "
                "for whole actions, use action_delay"
            )
        process, apply = manager.process_action, manager.apply_action
        held_out = slice(self._first, base.num_envs)
        before: list[torch.Tensor] = []
        passed = 0

        def process_action(action: torch.Tensor) -> None:
            nonlocal passed
            last = self._processed
            process(action)
            self._processed = now = [term.processed_actions[held_out].clone() for term in manager._terms.values()]
            before[:] = [
                torch.where(self._fresh.unsqueeze(1), new, old) for old, new in zip(last or now, now, strict=True)
            ]
            self._fresh[:] = False
            passed = 0

        def apply_action() -> None:
            nonlocal passed
            waits = (self._latency > passed).unsqueeze(1)
            for term, old, new in zip(manager._terms.values(), before, self._processed, strict=True):
                term.processed_actions[held_out] = torch.where(waits, old, new)
            passed += 1
            apply()

        for name, value in (("process_action", process_action), ("apply_action", apply_action)):
            setattr(manager, name, value)
            undo.callback(delattr, manager, name)

    def restore(self) -> None:
        """Restore the physics as the task made it."""
        if self._physical is not None:
            self._physical.restore()

    def assign(self, keys: NDArray[np.uint64]) -> None:
        """Draw the constants of each slot's episodes, and apply them to the restored physics.

        Args:
            keys: Keys of the slots' streams; shape (slots,).
        """
        self._fixed.restart(np.arange(len(keys)), keys)
        self._bias, self._writes = [], []
        for part, slots in self._parts:
            self._assign(part, slots)
        for write in self._writes:
            write()

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Within the context, the physics is as the task's events made it. Afterwards, the drawn constants apply again.

        Does not ask the device.
        """
        self.restore()
        yield
        for write in self._writes:
            write()

    def start(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Begin episodes, after the task's own reset.

        Args:
            slots: Slots in which an episode begins; shape (n,).
            keys: Keys of the slots' streams; shape (n,).
        """
        self._varying.restart(slots, keys)
        begun = to_device(slots, self._base.device)
        self._history.index_fill_(1, begun, 0.0)
        self._fresh.index_fill_(0, begun, True)
        for part, own, timers in self._pushes:
            chosen = np.isin(own, slots)
            if chosen.any():
                timers[chosen] = self._draw(self._varying, own[chosen], part.params["interval_s"])[:, 0]
        if self._restores:
            self._widen(slots[self._spread[slots] != 1.0])

    def delayed(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions that reach the task in this step, after the cells' delays.

        Args:
            actions: Actions of the policies in this step; shape (slots, actions).
        """
        if len(self._history) == 1:
            return actions
        self._history = torch.cat([actions.unsqueeze(0), self._history[:-1]])
        return self._history[self._delay, torch.arange(len(actions), device=actions.device)]

    def seen(self, observations: dict[str, Any]) -> dict[str, Any]:
        """Return the observations that the policies get, with the cells' noise and biases.

        Args:
            observations: Groups of the held-out slots, each of shape (slots, ...); they are not changed.
        """
        if not self._noise and not self._bias:
            return observations
        seen = {
            name: group.clone() if isinstance(group, torch.Tensor) else dict(group)
            for name, group in observations.items()
        }
        for (group, place, width), slots, rows, std in self._noise:
            part = _part(seen, group, place)[rows]
            drawn = self._varying.normal(slots, width).reshape(part.shape)
            _add(seen, group, place, rows, std * to_device(drawn, part, part.dtype))
        for group, place, bias in self._bias:
            part = _part(seen, group, place)
            _add(seen, group, place, slice(None), bias.reshape(part.shape).to(part))
        return seen

    def after_step(self) -> None:
        """Apply the pushes that are due."""
        for part, slots, timers in self._pushes:
            timers -= self._base.step_dt
            due = timers < 1e-6
            if not due.any():
                continue
            timers[due] = self._draw(self._varying, slots[due], part.params["interval_s"])[:, 0]
            self._push(part, slots[due], self._ids(slots[due]))

    def _assign(self, part: Perturbation, slots: NDArray[np.int64]) -> None:
        """Draw and write one perturbation of one cell."""
        params = part.params
        rows = to_device(slots, self._base.device)

        def drawn(limits: Range, width: int = 1) -> torch.Tensor:
            return torch.as_tensor(self._draw(self._fixed, slots, limits, width), dtype=torch.float32)

        def everywhere(values: torch.Tensor, otherwise: float) -> torch.Tensor:
            all_slots = torch.full((len(self._delay), *values.shape[1:]), otherwise)
            all_slots[torch.as_tensor(slots)] = values
            return all_slots

        match part.kind:
            case "initial_state":
                self._spread[slots] = self._draw(self._fixed, slots, params["scale"], 1)[:, 0]
            case "action_delay":
                self._delay[rows] = self._whole(slots, params["steps"])
            case "control_latency":
                self._latency[rows] = self._whole(slots, params["physics_steps"])
            case "observation_bias":
                for (group, place, width), most in self._terms(part, "range"):
                    bias = to_device(everywhere(drawn((-most, most), width), 0.0), self._base.device)
                    self._bias.append((group, place, bias))
            case kind if kind in _PHYSICAL:
                self._writes += self._physical_writes(kind, params, drawn, everywhere)

    def _physical_writes(
        self,
        kind: str,
        params: Any,  # noqa: ANN401 - a perturbation's parameters
        drawn: Callable[..., torch.Tensor],
        everywhere: Callable[[torch.Tensor, float], torch.Tensor],
    ) -> Iterator[Callable[[], None]]:
        """Draw one physical perturbation, and yield what applies it."""
        physical = self._physical
        assert physical is not None
        if kind == "gravity_tilt":
            angles = everywhere(drawn(params["angle_rad"]), 0.0)[:, 0]
            yield partial(physical.tilt_gravity, angles, everywhere(drawn((0.0, 2 * np.pi)), 0.0)[:, 0])
            return
        asset = params["asset"]
        if kind == "center_of_mass":
            offsets = everywhere(drawn(params["offset_m"], 3), 0.0)
            yield partial(physical.shift_center_of_mass, asset, params["bodies"], offsets)
        elif kind == "joint_friction":
            added = everywhere(drawn(params["add"]), 0.0)[:, 0]
            yield partial(physical.add_joint_friction, asset, params["joints"], added)
        else:
            factors = everywhere(drawn(params["scale"]), 1.0)[:, 0]
            if kind == "mass":
                yield partial(physical.scale_mass, asset, params["bodies"], factors)
            elif kind == "friction":
                yield partial(physical.scale_friction, asset, params["bodies"], factors)
            elif kind == "actuator_damping":
                yield partial(physical.scale_gains, asset, params["joints"], torch.ones_like(factors), factors)
            else:
                yield partial(physical.scale_gains, asset, params["joints"], factors, factors)
                yield partial(physical.scale_effort_limit, asset, params["joints"], factors)
                if self._drives_by_effort(asset):
                    yield partial(physical.scale_effort, asset, params["joints"], factors)

    def _drives_by_effort(self, asset: str) -> bool:
        """Tell whether the task commands the efforts of an asset; a weaker motor must scale these commands down."""
        from isaaclab.envs.mdp import JointEffortAction

        terms = self._base.action_manager._terms.values()
        return any(isinstance(term, JointEffortAction) and term.cfg.asset_name == asset for term in terms)

    def _widen(self, slots: NDArray[np.int64]) -> None:
        """Scale the distance of initial states from the defaults."""
        if not len(slots):
            return
        base, scale = self._base, to_device(self._spread[slots], self._base.device).unsqueeze(1)
        ids = to_device(self._first + slots, base.device)
        for asset in (*base.scene.articulations.values(), *base.scene.rigid_objects.values()):
            data = asset.data
            pose, rest = data.root_link_pose_w.torch[ids].clone(), data.default_root_pose.torch[ids]
            home = rest[:, :3] + base.scene.env_origins[ids]
            pose[:, :3] = home + scale * (pose[:, :3] - home)
            asset.write_root_pose_to_sim_index(root_pose=pose, env_ids=ids.int())
            velocity, rest = data.root_com_vel_w.torch[ids], data.default_root_vel.torch[ids]
            asset.write_root_velocity_to_sim_index(root_velocity=rest + scale * (velocity - rest), env_ids=ids.int())
        for robot in base.scene.articulations.values():
            data = robot.data
            position, rest = data.joint_pos.torch[ids], data.default_joint_pos.torch[ids]
            limits = data.soft_joint_pos_limits.torch[ids]
            wide = torch.clamp(rest + scale * (position - rest), limits[..., 0], limits[..., 1])
            robot.write_joint_position_to_sim_index(position=wide, env_ids=ids.int())
            velocity, rest = data.joint_vel.torch[ids], data.default_joint_vel.torch[ids]
            robot.write_joint_velocity_to_sim_index(velocity=rest + scale * (velocity - rest), env_ids=ids.int())

    def _push(self, part: Perturbation, slots: NDArray[np.int64], ids: torch.Tensor) -> None:
        """Add a velocity, to joints or to the root in the plane of the ground."""
        asset = self._base.scene[part.params["asset"]]
        if part.params["joints"]:
            columns, _ = asset.find_joints(part.params["joints"])
            kick = self._draw(self._varying, slots, part.params["velocity"], len(columns))
            velocity = asset.data.joint_vel.torch[ids][:, to_device(np.asarray(columns), ids)]
            velocity = velocity + to_device(kick, velocity, velocity.dtype)
            asset.write_joint_velocity_to_sim_index(velocity=velocity, joint_ids=columns, env_ids=ids.int())
            return
        velocity = asset.data.root_com_vel_w.torch[ids].clone()
        kick = self._draw(self._varying, slots, part.params["velocity"], 2)
        velocity[:, :2] += to_device(kick, velocity, velocity.dtype)
        asset.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=ids.int())

    def _terms(self, part: Perturbation, name: str) -> Iterator[tuple[tuple[str, Any, int], float]]:
        """Yield the position of observation terms (group, columns or name in the group, width), and their parameter."""
        manager = self._base.observation_manager
        for term, value in part.params[name].items():
            known = {each for terms in manager.active_terms.values() for each in terms}
            if term not in known:
                raise UserError(f"{part.kind}: the task has no observation {term!r}: {nearest(term, known)}")
            for group, terms in manager.active_terms.items():
                if term not in terms:
                    continue
                widths = [int(np.prod(shape)) for shape in manager.group_obs_term_dim[group]]
                begin, width = sum(widths[: terms.index(term)]), widths[terms.index(term)]
                together = manager.group_obs_concatenate[group]
                yield (group, slice(begin, begin + width) if together else term, width), value

    def _whole(self, slots: NDArray[np.int64], limits: tuple[int, int]) -> torch.Tensor:
        """Draw whole numbers."""
        low, high = limits
        values = low + (self._fixed.bits(slots, 1)[:, 0] % np.uint64(high - low + 1)).astype(np.int64)
        return torch.as_tensor(values, device=self._base.device)

    @staticmethod
    def _draw(streams: SlotStreams, slots: NDArray[np.int64], limits: Range, width: int = 1) -> NDArray[np.float64]:
        """Draw from a range; shape (slots, width)."""
        low, high = limits
        return low + (high - low) * streams.uniform(slots, width)

    def _of(self, kind: str) -> Iterator[tuple[Perturbation, NDArray[np.int64]]]:
        """Return the perturbations of one kind, with their slots."""
        return ((part, slots) for part, slots in self._parts if part.kind == kind)

    def _ids(self, slots: NDArray[np.int64]) -> torch.Tensor:
        """Return environment ids."""
        return to_device(self._first + slots, self._base.device)


def _require_joints(base: ManagerBasedRLEnv, part: Perturbation) -> None:
    """Refuse a push of joints that the asset doesn't have."""
    asset, joints = part.params["asset"], part.params["joints"]
    entities = {**base.scene.articulations, **base.scene.rigid_objects}
    if asset not in entities:
        raise UserError(f"push: the scene has no {asset!r}: {nearest(asset, entities)}")
    if not joints and getattr(entities[asset], "is_fixed_base", False):
        raise UserError(f"push: {asset!r} is fixed to the world, so its base cannot be pushed: give joints")
    names = getattr(entities[asset], "joint_names", [])
    if joints and not any(re.fullmatch(joints, name) for name in names):
        raise UserError(f"push: {asset!r} has no joint {joints!r}: {nearest(joints, names)}")


def _part(observations: Any, group: str, place: Any) -> torch.Tensor:  # noqa: ANN401 - groups of any shape
    """Return one term's part of the observations."""
    part: torch.Tensor = observations[group][place] if isinstance(place, str) else observations[group][..., place]
    return part


def _add(observations: Any, group: str, place: Any, rows: Any, value: torch.Tensor) -> None:  # noqa: ANN401
    """Add to one term's part of the observations."""
    if isinstance(place, str):
        observations[group][place] = observations[group][place].clone()
        observations[group][place][rows] += value
    else:
        observations[group][rows, ..., place] += value
