"""Restores the physical parameters of held-out slots to their declared values, and undoes changes by the training."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import warp as wp

from ledger_lab.panels.hooks import replace_until
from ledger_lab.panels.physical import ParameterTable, asset_table, physx_friction_table
from ledger_lab.panels.physics import is_newton, physics_name

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_STATE = frozenset(
    ("body_q", "body_qd", "body_f", "joint_q", "joint_qd", "joint_f", "joint_act", "joint_target_q", "joint_target_qd")
    + ("joint_X_p",)
)
"""Arrays of Newton's model that hold a state or a command; ``joint_X_p`` is the pose of an asset with a fixed base."""

_STATES_IN_OWN_ORDER = ("body_link_pose_w_user", "body_com_vel_w_user", "joint_pos_user", "joint_vel_user")
"""Copies of states among an asset's copies of arrays in its own order of bodies and joints."""

_TYPES = (wp.float32, wp.float64, wp.int32, wp.bool)
"""Types of numbers that can be compared; other types are addresses."""

_MOTOR_PARAMETER = re.compile("stiffness|damping|limit|_lim$|armature|friction|saturation|strength")
"""Matches parameters, not states, among the attributes of an actuator that Isaac Lab computes."""

_ASSET_TABLES = (
    ("body_mass", "set_masses_index", "masses"),
    ("body_inertia", "set_inertias_index", "inertias"),
    ("body_com_pose_b", "set_coms_index", "coms"),
    ("joint_stiffness", "write_joint_stiffness_to_sim_index", "stiffness"),
    ("joint_damping", "write_joint_damping_to_sim_index", "damping"),
    ("joint_armature", "write_joint_armature_to_sim_index", "armature"),
    *(
        (
            f"joint_{kind}friction_coeff",
            f"write_joint_{kind}friction_coefficient_to_sim_index",
            f"joint_{kind}friction_coeff",
        )
        for kind in ("", "dynamic_", "viscous_")
    ),
    ("joint_pos_limits", "write_joint_position_limit_to_sim_index", "limits"),
    ("joint_vel_limits", "write_joint_velocity_limit_to_sim_index", "limits"),
    ("joint_effort_limits", "write_joint_effort_limit_to_sim_index", "limits"),
)
"""Parameters that an asset reads and writes: attribute, writer and argument of :func:`asset_table`."""

_ROUNDING = 1e-5
"""Largest relative difference that reading a parameter back from an engine other than Newton may make."""


@dataclass(frozen=True)
class _Live:
    """Rows of an array that the simulation reads."""

    name: str
    rows: Callable[[], torch.Tensor]
    change: int = 0
    """Newton's flags for the solver; 0 if the solver does not read the array."""


type _Values = dict[str, torch.Tensor]

_AROUND_EVENTS: weakref.WeakKeyDictionary[ManagerBasedRLEnv, tuple[_Values, _Values]] = weakref.WeakKeyDictionary()
"""Parameters of all slots before and after the start-up events, by name."""


@contextmanager
def remembered_parameters() -> Iterator[None]:
    """Remember the parameters of environments that are created within the context, around their start-up events."""
    from isaaclab.managers import EventManager

    apply = EventManager.apply

    def remember_and_apply(self: Any, mode: str, *args: Any, **kwargs: Any) -> None:
        if mode != "startup" or self._env in _AROUND_EVENTS:
            apply(self, mode, *args, **kwargs)
            return
        before = _values(self._env)
        apply(self, mode, *args, **kwargs)
        _AROUND_EVENTS[self._env] = before, _values(self._env)

    EventManager.apply = remember_and_apply
    try:
        yield
    finally:
        EventManager.apply = apply


class ParameterRows:
    """All physical parameters of the held-out slots, and the default states of their assets."""

    def __init__(self, base: ManagerBasedRLEnv, first: int) -> None:
        """Remember the declared values; nothing is changed yet.

        Args:
            base: The environment, unwrapped.
            first: The first held-out slot.
        """
        self._base, self._first = base, first
        self._model, self._assets, self._tables = _model_rows(base, first), _asset_rows(base, first), _tables(base)
        self._ids = torch.arange(first, base.num_envs, dtype=torch.int32, device=base.device)
        now = dict(self.now())
        self._declared = {name: rows.clone() for name, rows in now.items()}
        self._kept = {name: rows.clone() for name, rows in now.items()}
        if base in _AROUND_EVENTS:
            for name, rows in now.items():
                before, after = (each[name][len(each[name]) - len(rows) :] for each in _AROUND_EVENTS[base])
                # What the environment has set after its start-up events belongs to the task, too.
                self._declared[name] = torch.where(_differs(rows, after), rows, before)
        self._shared = [(name, rows, rows.clone()) for name, rows in _shared_rows(base)]
        self._gravity = self._shared_gravity()
        self._writes, self._seen = 0, -1
        """How often parameters have been written since :meth:`attach`, and how often when they were last kept."""
        self._told: set[int] = set()
        """Flags of changes that a call has told Newton's solver about by itself."""

    def attach(self, undo: ExitStack) -> None:
        """Watch for changes of parameters. Must come after other hooks of the solver.

        Args:
            undo: Removes the hooks when it closes.
        """
        if not is_newton(self._base.cfg):
            for asset in _assets(self._base).values():
                for _, writer, _ in _ASSET_TABLES:
                    if hasattr(asset, writer):
                        replace_until(undo, asset, writer, self._counted(getattr(asset, writer)))
            return
        from isaaclab_newton.physics import NewtonManager

        manager, solver = NewtonManager, self._base.sim.physics_manager._solver
        add, notify = vars(manager)["add_model_change"].__func__, solver.notify_model_changed

        def notify_and_note(flags: int) -> None:
            if flags not in manager._model_changes:  # not by the next step of the manager
                self._writes += 1
                self._told.add(flags)
            notify(flags)

        replace_until(undo, manager, "add_model_change", classmethod(self._counted(add)))
        replace_until(undo, solver, "notify_model_changed", notify_and_note)

    def now(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the names and live values of all parameters; shape (rows of the held-out slots, ...)."""
        for live in (*self._model, *self._assets):
            yield live.name, live.rows()
        for name, table in self._tables.items():
            yield name, table.read()[self._first :]

    def restore(self) -> None:
        """Set all parameters to their declared values, and tell the solver about those that differed."""
        live = [(each, each.rows(), self._declared[each.name]) for each in (*self._model, *self._assets)]
        if live:
            differs = torch.stack([_differs(rows, declared).any() for _, rows, declared in live]).tolist()
            _copy([rows for _, rows, _ in live], [declared for *_, declared in live])
            for change in {each.change for (each, *_), differed in zip(live, differs, strict=True) if differed} - {0}:
                self._base.sim.physics_manager.add_model_change(change)
        self._write_tables(self._declared)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the parameters as they are, while training slots run a function that may change them for all slots.

        The host waits for the device only with engines other than Newton.
        """
        if self._writes != self._seen:
            self._take(self._model)
            for name, table in self._tables.items():
                self._kept[name] = table.read()[self._first :].clone()
        self._take(self._assets)
        self._told.clear()
        before = self._writes
        yield
        self._put(self._assets)
        if self._writes != before:
            self._put(self._model)
            self._write_tables(self._kept)
        for flags in self._told:
            self._base.sim.physics_manager.add_model_change(flags)
        self._seen = self._writes

    def changed_for_all(self) -> list[str]:
        """Return the names of changed values that all slots share. The host waits for the device.

        These are values that all worlds share, and values in the model that were written without telling the solver.
        """
        changed = [name for name, rows, before in self._shared if bool(_differs(rows, before).any())]
        if self._shared_gravity() != self._gravity:
            changed.append("gravity")
        if self._writes == self._seen:
            model = [(each.name, each.rows()) for each in self._model]
            changed += [name for name, rows in model if bool(_differs(rows, self._kept[name]).any())]
        return changed

    def _shared_gravity(self) -> tuple[float, ...] | None:
        """Return the gravity of all environments [m/s^2]; ``None`` if each has its own, or the engine doesn't tell."""
        read = None if is_newton(self._base.cfg) else getattr(self._base.sim.physics_manager, "get_gravity", None)
        return None if read is None else tuple(read())

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts each call of another as a write."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._writes += 1
            return call(*args, **kwargs)

        return counted

    def _take(self, live: Sequence[_Live]) -> None:
        """Keep the values of rows."""
        _copy([self._kept[each.name] for each in live], [each.rows() for each in live])

    def _put(self, live: Sequence[_Live]) -> None:
        """Set rows to the values that are kept."""
        _copy([each.rows() for each in live], [self._kept[each.name] for each in live])

    def _write_tables(self, values: Mapping[str, torch.Tensor]) -> None:
        """Write the values of tables in the slots where they differ by more than rounding."""
        for name, table in self._tables.items():
            close = torch.isclose(table.read()[self._first :], values[name], rtol=_ROUNDING, atol=1e-3 * _ROUNDING)
            changed = (~close).reshape(len(close), -1).any(dim=1).nonzero().squeeze(1)
            if len(changed):
                table.write(values[name][changed], self._ids[changed])


def _values(base: ManagerBasedRLEnv) -> dict[str, torch.Tensor]:
    """Copy the parameters of all slots."""
    live = {each.name: each.rows().clone() for each in (*_model_rows(base, 0), *_asset_rows(base, 0))}
    return live | {name: table.read().clone() for name, table in _tables(base).items()}


def _arrays(base: ManagerBasedRLEnv) -> Iterator[tuple[str, torch.Tensor, int, list[int]]]:
    """Yield the parameters in Newton's model.

    Yields:
        Name, values, Newton's flags for the solver, and where the rows of each world begin, and the last ones end. A
        value that all worlds share has no such places.
    """
    from newton import Model, ModelFlags

    model = base.sim.physics_manager.get_model()
    kinds = Model.AttributeFrequency
    starts = {
        kinds.BODY: (model.body_world_start, ModelFlags.BODY_INERTIAL_PROPERTIES | ModelFlags.BODY_PROPERTIES),
        kinds.JOINT: (model.joint_world_start, ModelFlags.JOINT_PROPERTIES),
        kinds.JOINT_DOF: (model.joint_dof_world_start, ModelFlags.JOINT_DOF_PROPERTIES),
        kinds.JOINT_COORD: (model.joint_coord_world_start, ModelFlags.JOINT_DOF_PROPERTIES),
        kinds.SHAPE: (model.shape_world_start, ModelFlags.SHAPE_PROPERTIES),
    }
    places = {kind: (start.numpy()[: base.num_envs + 1].tolist(), change) for kind, (start, change) in starts.items()}
    worlds = list(range(base.num_envs + 1))
    places[kinds.WORLD] = worlds, ModelFlags.MODEL_PROPERTIES
    for name, kind in {**model.attribute_frequency, "gravity": kinds.WORLD}.items():
        owner, _, own_name = name.rpartition(":")
        array = getattr(getattr(model, owner) if owner else model, own_name, None)
        is_state = name in _STATE or model.attribute_assignment.get(name, 0) != Model.AttributeAssignment.MODEL
        if is_state or not isinstance(array, wp.array) or not array.size or _number(array) not in _TYPES:
            continue
        if kind in places:
            begin, change = places[kind]
        else:  # of an engine's own kind: the worlds are copies of each other
            each, rest = divmod(len(array), base.num_envs)
            begin = [] if rest or kind == kinds.ONCE else [world * each for world in range(base.num_envs + 1)]
            change = ModelFlags.ALL
        if not begin or begin[-1] <= len(array):
            values = wp.to_torch(array)
            # The gravity of what belongs to no world follows that of all worlds, and moves nothing.
            yield name.replace(":", "."), values[: begin[-1]] if begin is worlds else values, int(change), begin


def _number(array: wp.array) -> Any:
    """Return the type of the numbers in an array."""
    return getattr(array.dtype, "_wp_scalar_type_", array.dtype)


def _model_rows(base: ManagerBasedRLEnv, first: int) -> list[_Live]:
    """Return the rows of some slots in the model of Newton; nothing for other engines."""
    if not is_newton(base.cfg):
        return []
    return [
        _live(name, values[begin[first] : begin[-1]], change)
        for name, values, change, begin in _arrays(base)
        if begin and begin[first] < begin[-1]
    ]


def _shared_rows(base: ManagerBasedRLEnv) -> list[tuple[str, torch.Tensor]]:
    """Return what all worlds share in the model of Newton, by name."""
    if not is_newton(base.cfg):
        return []
    shared = []
    for name, values, _, begin in _arrays(base):
        ends = (0, 0) if not begin else (begin[0], begin[-1])
        shared += [
            (f"{name} of all environments", part) for part in (values[: ends[0]], values[ends[1] :]) if len(part)
        ]
    return shared


def _live(name: str, rows: torch.Tensor, change: int = 0) -> _Live:
    """Return rows that stay at their place."""
    return _Live(name, lambda: rows, change)


def _asset_rows(base: ManagerBasedRLEnv, first: int) -> list[_Live]:
    """Return the default states of some slots, and the parameters of motors that Isaac Lab or Newton computes."""
    rows = []
    for name, asset in _assets(base).items():
        for attribute, value in vars(asset.data).items():
            own = attribute.removeprefix("_")
            is_kept = own.startswith("default_") or own == "soft_joint_pos_limits"
            # Newton's model has bodies and joints in another order than some assets, which have copies in their own.
            is_kept |= own.endswith("_user") and own not in _STATES_IN_OWN_ORDER
            if is_kept and isinstance(value, wp.array) and len(value) == base.num_envs:
                rows.append(_live(f"{own} of {name!r}", wp.to_torch(value)[first:]))
        actuators: Any = getattr(asset, "actuators", {})
        for group, actuator in actuators.items():
            motors = f"of the motors {group!r} of {name!r}"
            if group in actuators._native_group_names:
                for each in actuator if isinstance(actuator, tuple) else (actuator,):
                    rows += _native_rows(base, first, each, motors)
            elif not actuator.is_implicit_model:
                rows += [
                    _live(f"{attribute} {motors}", value[first:])
                    for attribute, value in vars(actuator).items()
                    if isinstance(value, torch.Tensor) and value.shape[:1] == (base.num_envs,)
                    if _MOTOR_PARAMETER.search(attribute)
                ]
    return rows


def _native_rows(base: ManagerBasedRLEnv, first: int, actuator: Any, motors: str) -> Iterator[_Live]:
    """Yield the parameters of motors that Newton computes; it may move them to another place before the first step."""
    begin = actuator.indices.size // base.num_envs * first
    for part in (actuator.drive, actuator.delay, *(actuator.clamping or ())):
        for attribute, value in vars(part).items() if part is not None else ():
            if isinstance(value, wp.array) and value.shape[:1] == actuator.indices.shape and _number(value) in _TYPES:
                read = partial(getattr, part, attribute)
                yield _Live(f"{attribute} {motors}", lambda read=read: wp.to_torch(read())[begin:])  # type: ignore[misc]


def _tables(base: ManagerBasedRLEnv) -> dict[str, ParameterTable]:
    """Return the parameters of engines other than Newton, by name."""
    tables = {}
    for name, asset in _assets(base).items() if not is_newton(base.cfg) else ():
        for attribute, writer, argument in _ASSET_TABLES:
            if hasattr(asset.data, attribute):
                tables[f"{attribute} of {name!r}"] = asset_table(asset, attribute, writer, argument)
        if physics_name(base.cfg) == "ovphysx":
            tables[f"friction of {name!r}"] = physx_friction_table(asset)
    return tables


def _assets(base: ManagerBasedRLEnv) -> dict[str, Any]:
    """Return the articulations and rigid objects of the scene, by name."""
    return {**base.scene.articulations, **base.scene.rigid_objects}


def _differs(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return which values differ in any bit; a NaN equals itself."""
    if left.dtype == torch.float32:
        left, right = left.view(torch.int32), right.view(torch.int32)
    return left != right


def _copy(to: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy tensors, many at once."""
    if to:
        torch._foreach_copy_(list(to), list(values))
