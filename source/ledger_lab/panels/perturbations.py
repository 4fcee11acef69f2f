"""The perturbations that a cell can apply to its episodes. A kind is one class: its parameters, and what it changes.

Each kind draws its numbers per seed, uniformly from a range ``[low, high]``; a single number ``x`` is the range
``[x, x]``. Noise and bias of observations are different: they take one number per observation term. For noise, it is
the standard deviation. For bias, it is the largest absolute value. Bodies and joints are named by regular expressions,
as in Isaac Lab.

Reading panels needs neither torch nor Isaac Lab; the methods that change a simulation import them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from ledger_lab.errors import UserError, nearest

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ledger_lab.panels.conditions import CellSlots
    from ledger_lab.panels.physical import PhysicalParameters

type Range = tuple[float, float]
type _Above0 = Annotated[float, Meta(gt=0)]
type _From0 = Annotated[float, Meta(ge=0)]
type _Steps = Annotated[int, Meta(ge=0)]

type Positive = tuple[_Above0, _Above0]
"""A range of numbers above 0."""
type NotNegative = tuple[_From0, _From0]
"""A range of numbers from 0."""
type Steps = tuple[_Steps, _Steps]
"""A range of whole numbers from 0."""
type PerTerm = Annotated[dict[str, _Above0], Meta(min_length=1)]
"""A number above 0 per observation term."""

KINDS: dict[str, type[Perturbation]] = {}
"""Every kind of perturbation, by its name in panel files."""


class Perturbation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One perturbation of a cell. The fields of a subclass are the parameters of a kind in panel files.

    The methods are called with the slots of the cell. What a perturbation keeps of them is in
    :attr:`~ledger_lab.panels.conditions.CellSlots.kept`.
    """

    kind: ClassVar[str]
    """Name in panel files."""

    def __init_subclass__(cls) -> None:
        """Make a kind known."""
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @classmethod
    def read(cls, where: str, given: Mapping[str, Any]) -> Perturbation:
        """Read the parameters of this kind.

        Args:
            where: Description of their table, for messages.
            given: The parameters, as written in a panel file.

        Raises:
            UserError: If a parameter is unknown, missing, or has a wrong value.
        """
        ranges = {name: [value, value] if isinstance(value, int | float) else value for name, value in given.items()}
        try:
            return msgspec.convert(ranges, cls)
        except msgspec.ValidationError as error:
            raise UserError(f"{where}: {cls.kind}: {error}") from error

    def __post_init__(self) -> None:
        """Refuse ranges that end before they begin.

        Raises:
            ValueError: If there is one.
        """
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, tuple) and value[0] > value[1]:
                raise ValueError(f"{name} is [{value[0]}, {value[1]}]: put the lower number first")

    def plain(self) -> dict[str, Any]:
        """Return the parameters as JSON values, with lists in place of tuples, as a journal holds them."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    def prepare(self, own: CellSlots, undo: ExitStack) -> None:
        """Check that the task has what is perturbed, and set hooks if they are needed.

        Raises:
            UserError: If it doesn't.
        """

    def draw(self, own: CellSlots) -> Iterator[Callable[[], None]]:
        """Draw what stays constant in an episode, for all slots; yield what writes it into the physics."""
        return iter(())

    def start(self, own: CellSlots, begun: NDArray[np.int64]) -> None:
        """Begin episodes, after the task's own reset.

        Args:
            own: The slots of the cell.
            begun: The places among them in which an episode begins; shape (n,).
        """

    def act(self, own: CellSlots, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions that reach the task in this step; shape (slots of the cell, actions)."""
        return actions

    def see(self, own: CellSlots, observations: dict[str, Any]) -> None:
        """Change what policies observe, in groups of all held-out slots."""

    def after_step(self, own: CellSlots) -> None:
        """Act at the end of a step."""


def read_perturbations(where: str, table: Mapping[str, Any]) -> tuple[Perturbation, ...]:
    """Read the perturbations of a cell.

    Args:
        where: Description of the table, for messages.
        table: Kinds and their parameters, as written in the file.

    Raises:
        UserError: If a kind or a parameter is unknown, missing, or has a wrong value.
    """
    for kind, given in table.items():
        if kind not in KINDS:
            raise UserError(f"{where}: unknown perturbation {kind!r}: {nearest(kind, KINDS)}")
        if not isinstance(given, dict):
            raise UserError(f"{where}: {kind} must be a table, like {{ scale = [0.8, 1.2] }}")
    return tuple(KINDS[kind].read(where, given) for kind, given in table.items())


class Physical(Perturbation, frozen=True):
    """A physical parameter with a value per slot. One number is drawn for each; see :meth:`write`."""

    neutral: ClassVar[float] = 1.0
    """Value that changes nothing."""
    drawn: ClassVar[str] = "scale"
    """Parameter that gives the range."""
    width: ClassVar[int] = 1
    """Numbers per slot."""

    def draw(self, own: CellSlots) -> Iterator[Callable[[], None]]:
        """Draw the values of all slots."""
        values = own.spread(own.constant(getattr(self, self.drawn), self.width), self.neutral)
        yield partial(self.write, own.physical, values if self.width > 1 else values[:, 0])

    def write(self, physical: PhysicalParameters, values: torch.Tensor) -> None:
        """Apply values to the slots.

        Args:
            physical: The parameters of the slots.
            values: Shape (slots,), or (slots, :attr:`width`), on the host.
        """
        raise NotImplementedError


class Mass(Physical, frozen=True):
    """Scales masses and inertias of bodies."""

    kind = "mass"
    scale: Positive
    asset: str = "robot"
    bodies: str = ".*"

    def write(self, physical: PhysicalParameters, values: torch.Tensor) -> None:
        """Scale them."""
        from ledger_lab.panels.physical import asset_table

        entity, columns = physical.bodies(self.kind, self.asset, self.bodies)
        for attribute, what in (("body_mass", "masses"), ("body_inertia", "inertias")):
            table = asset_table(entity, attribute, f"set_{what}_index", what)
            physical.scale(f"{self.asset}/{what}", table, columns, values)


class CenterOfMass(Physical, frozen=True):
    """Moves centers of mass of bodies, in their frames [m]."""

    kind = "center_of_mass"
    neutral = 0.0
    drawn = "offset_m"
    width = 3
    offset_m: Range
    asset: str = "robot"
    bodies: str = ".*"

    def write(self, physical: PhysicalParameters, values: torch.Tensor) -> None:
        """Move them."""
        from ledger_lab.panels.physical import asset_table

        entity, columns = physical.bodies(self.kind, self.asset, self.bodies)

        def shift(rows: torch.Tensor, changed: torch.Tensor) -> None:
            rows[:, columns, :3] += physical.there(values[changed]).unsqueeze(1)

        attribute = "body_com_pos_b" if physical.is_mujoco else "body_com_pose_b"
        table = asset_table(entity, attribute, "set_coms_index", "coms")
        physical.change(f"{self.asset}/center_of_mass", table, (values != 0.0).any(dim=-1), shift)


class Friction(Physical, frozen=True):
    """Scales the friction of contacts of bodies, static and dynamic.

    MuJoCo uses the larger coefficient of two shapes in contact, or only that of the shape with the higher priority. So
    the ground and all other shared shapes are scaled, too, for the same slots. Contacts with another asset keep their
    friction if its coefficient is larger or its priority is higher: then that asset must be named. PhysX combines the
    coefficients as the materials specify, for all bodies of an asset; its ground is not changed.
    """

    kind = "friction"
    scale: NotNegative
    asset: str = "robot"
    bodies: str = ".*"

    def write(self, physical: PhysicalParameters, values: torch.Tensor) -> None:
        """Scale it."""
        from ledger_lab.panels import physical as tables

        entity, columns = physical.bodies(self.kind, self.asset, self.bodies)
        if physical.is_mujoco:
            table = tables.newton_friction_table(physical.base, entity)
            links = getattr(entity, "map_body_ids_to_backend", list)(columns)
            shapes = [shape for link in links for shape in entity.root_view.body_shapes[link]]
        elif len(columns) == entity.num_bodies:
            table = tables.physx_friction_table(entity)
            shapes = list(range(table.read().shape[1]))
        else:
            raise UserError(f"the perturbation 'friction' of single bodies cannot be done by {physical.engine}")
        if not shapes:
            raise UserError(f"the perturbation 'friction' needs collision shapes, and {self.asset!r} has none there")
        physical.scale(f"{self.asset}/friction", table, shapes, values)
        if physical.is_mujoco:
            ground = physical.hooked("ground", lambda: tables.newton_ground_friction_table(physical.base))
            physical.scale("ground/friction", ground, [0], values)


class JointFriction(Physical, frozen=True):
    """Adds dry friction to joints [N or N m]. For MuJoCo-Warp, each such joint is one more constraint (``njmax``)."""

    kind = "joint_friction"
    neutral = 0.0
    drawn = "add"
    add: NotNegative
    asset: str = "robot"
    joints: str = ".*"

    def write(self, physical: PhysicalParameters, values: torch.Tensor) -> None:
        """Add it."""
        from ledger_lab.panels.physical import asset_table

        entity, columns = physical.joints(self.kind, self.asset, self.joints)

        def add(rows: torch.Tensor, changed: torch.Tensor) -> None:
            rows[:, columns] += physical.there(values[changed]).unsqueeze(1)

        for kind in ["joint_friction"] if physical.is_mujoco else ["joint_friction", "joint_dynamic_friction"]:
            table = asset_table(entity, f"{kind}_coeff", f"write_{kind}_coefficient_to_sim_index", f"{kind}_coeff")
            physical.change(f"{self.asset}/{kind}", table, values != 0.0, add)


class ActuatorStrength(Physical, frozen=True):
    """Scales gains and largest efforts of motors, and the efforts that the task commands.

    The engines limit the efforts of motors that follow positions and velocities, but not those that are commanded.
    """

    kind = "actuator_strength"
    scale: Positive
    asset: str = "robot"
    joints: str = ".*"

    def write(self, physical: PhysicalParameters, values: torch.Tensor) -> None:
        """Scale them."""
        from isaaclab.actuators import ImplicitActuatorCfg
        from isaaclab.envs.mdp import JointEffortAction

        from ledger_lab.panels.direct import is_direct
        from ledger_lab.panels.physical import MOTOR_PARAMETERS, delivered_effort_table

        for parameter in MOTOR_PARAMETERS:
            physical.scale_motors(self.kind, self.asset, self.joints, parameter, values)
        entity, columns = physical.joints(self.kind, self.asset, self.joints)
        terms = physical.base.action_manager._terms.values()
        commands_effort = any(
            isinstance(term, JointEffortAction) and term.cfg.asset_name == self.asset for term in terms
        )
        if is_direct(physical.base):  # it may command efforts; of targets, the engine computes the efforts later
            commands_effort = all(isinstance(each, ImplicitActuatorCfg) for each in entity.cfg.actuators.values())
        if not commands_effort:
            return
        if entity.actuators._native_group_names:
            raise UserError(
                f"the perturbation {self.kind!r} cannot be done to {self.asset!r}: Newton computes its actuators"
            )
        table = physical.hooked(self.asset, lambda: delivered_effort_table(entity))
        physical.scale(f"{self.asset}/effort", table, columns, values)


class ActuatorDamping(Physical, frozen=True):
    """Scales the damping of motors."""

    kind = "actuator_damping"
    scale: NotNegative
    asset: str = "robot"
    joints: str = ".*"

    def write(self, physical: PhysicalParameters, values: torch.Tensor) -> None:
        """Scale it."""
        from ledger_lab.panels.physical import DAMPING

        physical.scale_motors(self.kind, self.asset, self.joints, DAMPING, values)


class GravityTilt(Perturbation, frozen=True):
    """Tilts gravity into a random direction, as if the slot stood on a slope."""

    kind = "gravity_tilt"
    angle_rad: NotNegative

    def draw(self, own: CellSlots) -> Iterator[Callable[[], None]]:
        """Draw angles, and directions from +x towards +y."""
        angles, directions = (own.spread(own.constant(r), 0.0)[:, 0] for r in (self.angle_rad, (0.0, 2 * math.pi)))
        yield partial(self.write, own.physical, angles, directions)

    def write(self, physical: PhysicalParameters, angles: torch.Tensor, directions: torch.Tensor) -> None:
        """Tilt it. A second tilt replaces the first.

        Args:
            physical: The parameters of the slots.
            angles: Angles from the vertical [rad]; shape (slots,), on the host.
            directions: Horizontal directions of the tilt [rad]; of the same shape.
        """
        import torch

        from ledger_lab.panels.physical import gravity_table

        physical.require(self.kind)

        def tilt(rows: torch.Tensor, changed: torch.Tensor) -> None:
            angle, direction = physical.there(angles[changed]), physical.there(directions[changed])
            vector = [angle.sin() * direction.cos(), angle.sin() * direction.sin(), -angle.cos()]
            rows[:] = rows.norm(dim=1, keepdim=True) * torch.stack(vector, dim=1)

        physical.change("gravity", gravity_table(physical.base), angles != 0.0, tilt)


class InitialState(Perturbation, frozen=True):
    """Scales the distance of initial states from the defaults."""

    kind = "initial_state"
    scale: NotNegative

    def draw(self, own: CellSlots) -> Iterator[Callable[[], None]]:
        """Draw the factors."""
        own.kept["scale"] = own.constant(self.scale)[:, 0].astype("float32")
        return iter(())

    def start(self, own: CellSlots, begun: NDArray[np.int64]) -> None:
        """Scale the state of robots and objects after the reset."""
        import torch

        scales = own.kept["scale"][begun]
        begun, scales = begun[scales != 1.0], scales[scales != 1.0]
        if not len(begun):
            return
        base, ids = own.base, own.ids(begun)
        scale = own.there(scales).unsqueeze(1)
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


class ActionDelay(Perturbation, frozen=True):
    """Delays actions by whole environment steps."""

    kind = "action_delay"
    steps: Steps

    def prepare(self, own: CellSlots, undo: ExitStack) -> None:
        """Make room for the actions of earlier steps."""
        import torch

        shape = (self.steps[1] + 1, len(own.slots), own.base.action_manager.total_action_dim)
        own.kept["history"] = torch.zeros(shape, device=own.base.device)

    def draw(self, own: CellSlots) -> Iterator[Callable[[], None]]:
        """Draw the delays."""
        own.kept["delay"] = own.constant_steps(self.steps)
        return iter(())

    def start(self, own: CellSlots, begun: NDArray[np.int64]) -> None:
        """Forget earlier actions."""
        own.kept["history"].index_fill_(1, own.there(begun), 0.0)

    def act(self, own: CellSlots, actions: torch.Tensor) -> torch.Tensor:
        """Return earlier actions."""
        import torch

        history = own.kept["history"] = torch.cat([actions.unsqueeze(0), own.kept["history"][:-1]])
        return history[own.kept["delay"], torch.arange(len(actions), device=actions.device)]


class ControlLatency(Perturbation, frozen=True):
    """Delays actions by physics steps, on their way to the motors."""

    kind = "control_latency"
    physics_steps: Steps

    def prepare(self, own: CellSlots, undo: ExitStack) -> None:
        """Intercept the actions."""
        import torch

        from ledger_lab.panels.direct import is_direct
        from ledger_lab.panels.hooks import replace_until

        if is_direct(own.base):
            raise UserError("control_latency is not possible in a direct-workflow task: use action_delay")
        manager, decimation = own.base.action_manager, own.base.cfg.decimation
        if own.base._physics_handles_decimation:
            raise UserError(
                "control_latency is not possible with this engine, which does all physics steps of an action in one "
                "call: use action_delay"
            )
        if self.physics_steps[1] > decimation:
            raise UserError(
                f"control_latency of {self.physics_steps[1]} physics steps is longer than an action ({decimation} "
                "steps): for whole actions, use action_delay"
            )
        process, apply, terms = manager.process_action, manager.apply_action, manager._terms
        rows = own.ids()
        own.kept["fresh"] = torch.ones(len(rows), 1, dtype=torch.bool, device=rows.device)
        before: list[torch.Tensor] = []
        processed: list[torch.Tensor] = []
        passed = 0

        def process_action(action: torch.Tensor) -> None:
            nonlocal passed
            process(action)
            now = [term.processed_actions[rows].clone() for term in terms.values()]
            last = processed or now
            before[:] = [torch.where(own.kept["fresh"], new, old) for old, new in zip(last, now, strict=True)]
            processed[:] = now
            own.kept["fresh"].fill_(False)
            passed = 0

        def apply_action() -> None:
            nonlocal passed
            waits = (own.kept["latency"] > passed).unsqueeze(1)
            for term, old, new in zip(terms.values(), before, processed, strict=True):
                term.processed_actions[rows] = torch.where(waits, old, new)
            passed += 1
            apply()

        replace_until(undo, manager, "process_action", process_action)
        replace_until(undo, manager, "apply_action", apply_action)

    def draw(self, own: CellSlots) -> Iterator[Callable[[], None]]:
        """Draw the latencies."""
        own.kept["latency"] = own.constant_steps(self.physics_steps)
        return iter(())

    def start(self, own: CellSlots, begun: NDArray[np.int64]) -> None:
        """Forget earlier actions."""
        own.kept["fresh"].index_fill_(0, own.there(begun), True)


class ObservationNoise(Perturbation, frozen=True):
    """Adds noise to observations, of a standard deviation for each term."""

    kind = "observation_noise"
    std: PerTerm

    def prepare(self, own: CellSlots, undo: ExitStack) -> None:
        """Find the terms."""
        own.kept["places"] = list(own.places(self.kind, self.std))

    def see(self, own: CellSlots, observations: dict[str, Any]) -> None:
        """Draw the noise, and add it."""
        for place, std in own.kept["places"]:
            noise = own.there(own.varying.normal(own.slots, place.width).astype("float32"))
            own.add(observations, place, std * noise)


class ObservationBias(Perturbation, frozen=True):
    """Adds a constant to observations, up to a largest value for each term."""

    kind = "observation_bias"
    range: PerTerm

    def prepare(self, own: CellSlots, undo: ExitStack) -> None:
        """Find the terms."""
        own.kept["places"] = list(own.places(self.kind, self.range))

    def draw(self, own: CellSlots) -> Iterator[Callable[[], None]]:
        """Draw the constants."""
        own.kept["bias"] = [
            own.there(own.constant((-most, most), place.width).astype("float32")) for place, most in own.kept["places"]
        ]
        return iter(())

    def see(self, own: CellSlots, observations: dict[str, Any]) -> None:
        """Add the constants."""
        for (place, _), bias in zip(own.kept["places"], own.kept["bias"], strict=True):
            own.add(observations, place, bias)


class Push(Perturbation, frozen=True):
    """Adds a velocity at intervals, to joints or to the root in the plane of the ground."""

    kind = "push"
    velocity: Range
    interval_s: Positive
    asset: str = "robot"
    joints: str = ""

    def prepare(self, own: CellSlots, undo: ExitStack) -> None:
        """Refuse a push of what the asset doesn't have."""
        from ledger_lab.panels.physical import entity_of, indices_of

        asset = entity_of(self.asset, {**own.base.scene.articulations, **own.base.scene.rigid_objects})
        if self.joints:
            indices_of(asset.find_joints, self.joints, self.asset, asset.joint_names)
        elif getattr(asset, "is_fixed_base", False):
            raise UserError(f"push: {self.asset!r} is fixed to the world, so its base cannot be pushed: give joints")
        own.kept["left_s"] = own.zeros()

    def start(self, own: CellSlots, begun: NDArray[np.int64]) -> None:
        """Draw the time to the first push."""
        own.kept["left_s"][begun] = own.variable(begun, self.interval_s)[:, 0]

    def after_step(self, own: CellSlots) -> None:
        """Push where the time is over."""
        left_s = own.kept["left_s"]
        left_s -= own.base.step_dt
        due = (left_s < 1e-6).nonzero()[0]
        if not len(due):
            return
        left_s[due] = own.variable(due, self.interval_s)[:, 0]
        asset, ids = own.base.scene[self.asset], own.ids(due)
        if self.joints:
            columns, _ = asset.find_joints(self.joints)
            velocity = asset.data.joint_vel.torch[ids][:, own.there(columns)]
            velocity = velocity + own.there(own.variable(due, self.velocity, len(columns))).to(velocity.dtype)
            asset.write_joint_velocity_to_sim_index(velocity=velocity, joint_ids=columns, env_ids=ids.int())
        else:
            velocity = asset.data.root_com_vel_w.torch[ids].clone()
            velocity[:, :2] += own.there(own.variable(due, self.velocity, 2)).to(velocity.dtype)
            asset.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=ids.int())
