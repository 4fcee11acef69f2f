"""Physical parameters of single slots in each physics engine: masses, friction, motors, gravity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import warp as wp

from ledger_lab.errors import UserError, nearest
from ledger_lab.panels.physics import is_mujoco, physics_name
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


@dataclass(frozen=True)
class ParameterTable:
    """One physical parameter, with a row per environment."""

    read: Callable[[], torch.Tensor]
    """Returns all rows; shape (num_envs, columns, ...)."""
    write: Callable[[torch.Tensor, torch.Tensor], object]
    """Writes rows of shape (n, columns, ...) of the environments of shape (n,), and notifies the solver."""


@dataclass(frozen=True)
class MotorParameter:
    """Where a motor parameter is stored, if the solver, Isaac Lab or Newton computes the motors."""

    implicit: tuple[str, str, str]
    """The solver: attribute, writer and argument of :func:`asset_table`."""
    explicit: str
    """Isaac Lab: the attribute of the actuator model."""
    native: tuple[str, tuple[str, ...]]
    """Newton's actuators: the component, and what its kinds call the parameter."""


STIFFNESS = MotorParameter(
    ("joint_stiffness", "write_joint_stiffness_to_sim_index", "stiffness"), "stiffness", ("controller", ("kp",))
)
DAMPING = MotorParameter(
    ("joint_damping", "write_joint_damping_to_sim_index", "damping"), "damping", ("controller", ("kd",))
)
EFFORT_LIMIT = MotorParameter(
    ("joint_effort_limits", "write_joint_effort_limit_to_sim_index", "limits"),
    "actuator_effort_limit",
    ("clamping", ("max_effort", "max_motor_effort")),
)
MOTOR_PARAMETERS = (STIFFNESS, DAMPING, EFFORT_LIMIT)


def asset_table(asset: Any, attribute: str, writer: str, argument: str) -> ParameterTable:
    """Return a parameter for which an asset has a writer method.

    Args:
        asset: An articulation or rigid object.
        attribute: Attribute of the asset's data.
        writer: Method that writes the parameter.
        argument: Name of the method's argument.
    """
    return ParameterTable(
        lambda: getattr(asset.data, attribute).torch,
        lambda rows, slots: getattr(asset, writer)(env_ids=slots, **{argument: rows}),
    )


def explicit_motor_table(actuator: Any, parameter: MotorParameter) -> ParameterTable:
    """Return a parameter of motors that Isaac Lab computes; shape (num_envs, joints of the group).

    Args:
        actuator: Their model.
        parameter: The parameter.
    """
    from isaaclab.actuators import DCMotor

    def write(rows: torch.Tensor, slots: torch.Tensor) -> None:
        getattr(actuator, parameter.explicit)[slots] = rows
        if parameter is EFFORT_LIMIT and isinstance(actuator, DCMotor):
            # the speed at which its torque-speed curve crosses the limit, as its constructor computes it
            stall = actuator._saturation_effort[slots]
            actuator._vel_at_effort_lim[slots] = actuator.actuator_velocity_limit[slots] * (1.0 + rows / stall)

    return ParameterTable(lambda: getattr(actuator, parameter.explicit), write)


def native_motor_table(articulation: Any, group: str, parameter: MotorParameter) -> ParameterTable:
    """Return a parameter of motors that Newton computes; shape (num_envs, joints of the group).

    Args:
        articulation: The articulation.
        group: Name of its group of actuators.
        parameter: The parameter.

    Raises:
        UserError: If the actuators have no such parameter.
    """
    from isaaclab.actuators.newton import read_group_parameter, write_group_parameter

    component, names = parameter.native

    def known(name: str) -> bool:
        try:
            read_group_parameter(articulation.actuators, group, component, name)
        except ValueError:
            return False
        return True

    name = next(filter(known, names), None)
    if name is None:
        raise UserError(f"the actuators {group!r} cannot be perturbed: they have no {' or '.join(names)}")
    where = (articulation.actuators, group, component, name)
    return ParameterTable(
        lambda: read_group_parameter(*where), lambda rows, slots: write_group_parameter(*where, rows, env_ids=slots)
    )


def delivered_effort_table(articulation: Any) -> ParameterTable:
    """Return factors for the efforts that actuators hand to the engine; shape (num_envs, joints).

    After this call, the factors are applied each time after Isaac Lab has computed the actuators.

    Args:
        articulation: An articulation without actuators that Newton computes.
    """
    actuators = articulation.actuators
    factors = wp.ones((articulation.num_instances, articulation.num_joints), dtype=float, device=articulation.device)
    compute = actuators.compute

    def compute_and_scale(dt: float = 0.0) -> None:
        compute(dt)
        wp.to_torch(actuators.output_command.effort.warp).mul_(wp.to_torch(factors))

    def write(rows: torch.Tensor, slots: torch.Tensor) -> None:
        wp.to_torch(factors)[slots] = rows

    actuators.compute = compute_and_scale
    return ParameterTable(lambda: wp.to_torch(factors), write)


def gravity_table(base: Any) -> ParameterTable:
    """Return gravity in Newton [m/s^2]; shape (num_envs, 3).

    Args:
        base: The unwrapped environment.
    """
    from newton import ModelFlags

    manager = base.sim.physics_manager

    def read() -> torch.Tensor:
        return wp.to_torch(manager.get_model().gravity)[: base.num_envs]

    def write(rows: torch.Tensor, slots: torch.Tensor) -> None:
        read()[slots] = rows
        manager.add_model_change(ModelFlags.MODEL_PROPERTIES)

    return ParameterTable(read, write)


def newton_friction_table(base: Any, asset: Any) -> ParameterTable:
    """Return the friction coefficients of an asset's shapes in Newton; shape (num_envs, shapes).

    Args:
        base: The unwrapped environment.
        asset: An articulation or rigid object.
    """
    from newton import ModelFlags

    manager, view = base.sim.physics_manager, asset.root_view

    def coefficients() -> Any:
        return view.get_attribute("shape_material_mu", manager.get_model())

    def write(rows: torch.Tensor, slots: torch.Tensor) -> None:
        values = coefficients()
        wp.to_torch(values)[slots, 0] = rows
        view.set_attribute("shape_material_mu", manager.get_model(), values)
        manager.add_model_change(ModelFlags.SHAPE_PROPERTIES)

    return ParameterTable(lambda: wp.to_torch(coefficients())[:, 0], write)


def newton_ground_friction_table(base: Any) -> ParameterTable:
    """Return factors for the friction of the shapes that all slots share in Newton; shape (num_envs, 1).

    Newton's model has one coefficient per shape. MuJoCo-Warp's model has one per shape and world, and Newton rewrites
    those whenever a shape changes. After this call, the factors are applied at every such rewrite.

    Args:
        base: The unwrapped environment.
    """
    from newton import ModelFlags

    manager = base.sim.physics_manager
    solver = manager._solver
    factors = wp.ones((base.num_envs, 1), dtype=float, device=base.device)
    worlds = manager.get_model().shape_world.numpy()[solver.mjc_geom_to_newton_shape.numpy()[0]]
    (shared,) = (worlds < 0).nonzero()
    notify = solver.notify_model_changed

    def notify_and_scale(flags: int) -> None:
        notify(flags)
        if flags & ModelFlags.SHAPE_PROPERTIES:
            wp.to_torch(solver.mjw_model.geom_friction)[:, shared, 0] *= wp.to_torch(factors)

    def write(rows: torch.Tensor, slots: torch.Tensor) -> None:
        wp.to_torch(factors)[slots] = rows
        manager.add_model_change(ModelFlags.SHAPE_PROPERTIES)

    solver.notify_model_changed = notify_and_scale
    return ParameterTable(lambda: wp.to_torch(factors), write)


def physx_friction_table(asset: Any) -> ParameterTable:
    """Return static and dynamic friction of an asset's shapes in OvPhysX; shape (num_envs, shapes, 2).

    Args:
        asset: An articulation or rigid object.
    """
    from isaaclab.assets import BaseArticulation
    from isaaclab_ov import tensor_types

    view = asset.root_view
    kind = tensor_types.RIGID_BODY_SHAPE_FRICTION_AND_RESTITUTION
    if isinstance(asset, BaseArticulation):
        kind = tensor_types.SHAPE_FRICTION_AND_RESTITUTION

    def write(rows: torch.Tensor, slots: torch.Tensor) -> None:
        values = view.get_attribute(kind)
        materials = wp.to_torch(values)
        places = slots.to(materials.device)
        materials[places, :, :2] = rows.to(materials.device)
        view.set_attribute(kind, values, indices=wp.from_torch(places))

    return ParameterTable(lambda: wp.to_torch(view.get_attribute(kind))[..., :2].to(asset.device), write)


class PhysicalParameters:
    """Changes physical parameters of some slots while the simulation runs, and restores the original values.

    Changes accumulate: factors multiply the current values, and offsets are added to them. A factor of 1 and an offset
    of 0 leave their slot unchanged, bit for bit. The engine's arrays are changed in place, and Isaac Lab updates the
    solver before its next step. Recorded steps and CUDA graphs therefore see the change, too.
    """

    def __init__(self, env: ManagerBasedRLEnv, slots: torch.Tensor) -> None:
        """Prepare the tables; nothing is changed yet.

        Args:
            env: The environment, as ``gym.make`` returns it.
            slots: Environments that may be changed; shape (n,).
        """
        self.base = base = env.unwrapped
        self._slots = slots.to("cpu", torch.int32)
        """On the host, like all values of perturbations, so that it knows what changes without asking a GPU."""
        self.engine, self.is_mujoco = physics_name(base.cfg), is_mujoco(base.cfg)
        self._built: dict[str, tuple[ParameterTable, torch.Tensor, torch.Tensor]] = {}
        self._hooked: dict[str, ParameterTable] = {}

    def restore(self) -> None:
        """Restore all values from before the first change.

        On Newton, motion then repeats bit for bit. OvPhysX converts each inertia to principal axes of its own choice,
        so there motion repeats up to rounding.
        """
        for table, rows, changes in reversed(self._built.values()):
            changed = changes.nonzero().squeeze(1)
            table.write(rows[self.there(changed)], self.there(self._slots[changed]))
        self._built.clear()

    def scale(self, name: str, table: ParameterTable, columns: list[int], factors: torch.Tensor) -> None:
        """Multiply columns of a table by a factor per slot.

        Args:
            name: Name of the table.
            table: The table.
            columns: The columns.
            factors: Shape (n,), on the host.
        """

        def edit(rows: torch.Tensor, changed: torch.Tensor) -> None:
            rows[:, columns] *= self.there(factors[changed]).reshape(-1, *[1] * (rows.dim() - 1))

        self.change(name, table, factors != 1.0, edit)

    def scale_motors(
        self, kind: str, asset: str, joints: str, parameter: MotorParameter, factors: torch.Tensor
    ) -> None:
        """Scale a motor parameter, wherever it is stored.

        Args:
            kind: The perturbation, for messages.
            asset: Name of an articulation in the scene.
            joints: Its joints.
            parameter: The parameter.
            factors: Shape (n,), on the host.
        """
        entity, columns = self.joints(kind, asset, joints)
        chosen = {entity.joint_names[column] for column in columns}
        actuators = entity.actuators
        for group, members in actuators._group_joint_names.items():
            name, places = f"{asset}/{group}/{parameter.explicit}", [members.index(j) for j in members if j in chosen]
            if not places:
                continue
            if group in actuators._native_group_names:
                table = native_motor_table(entity, group, parameter)
            elif actuators[group].is_implicit_model:
                name, table = f"{asset}/{parameter.explicit}", asset_table(entity, *parameter.implicit)
                places = [entity.joint_names.index(members[place]) for place in places]
            else:
                table = explicit_motor_table(actuators[group], parameter)
            self.scale(name, table, places, factors)

    def change(
        self,
        name: str,
        table: ParameterTable,
        changes: torch.Tensor,
        edit: Callable[[torch.Tensor, torch.Tensor], None],
    ) -> None:
        """Edit the rows of the slots that change; remember the original values at the first change.

        Args:
            name: Name of the table.
            table: The table.
            changes: Which slots change, on the host; shape (n,).
            edit: Edits a copy of the rows in place; called with the rows, and with their places among the slots, on the
                host.
        """
        if not changes.any():
            return
        if name in self._built:
            table, built, changed_before = self._built[name]
            self._built[name] = table, built, changed_before | changes
        else:
            self._built[name] = table, table.read()[self.there(self._slots)].clone(), changes
        changed = changes.nonzero().squeeze(1)
        slots = self.there(self._slots[changed])
        rows = table.read()[slots].clone()
        edit(rows, changed)
        table.write(rows, slots)

    def there(self, values: torch.Tensor) -> torch.Tensor:
        """Copy values of the host to the device of the simulation, without waiting for it."""
        return to_device(values, self.base.device)

    def hooked(self, name: str, build: Callable[[], ParameterTable]) -> ParameterTable:
        """Return a table that hooks into the simulation; create it at the first call only."""
        if name not in self._hooked:
            self._hooked[name] = build()
        return self._hooked[name]

    def require(self, kind: str, *engines: str) -> None:
        """Refuse a perturbation if the scene uses neither MuJoCo nor one of some other engines."""
        if not self.is_mujoco and self.engine not in engines:
            raise UserError(f"the perturbation {kind!r} cannot be done by {self.engine}")

    def bodies(self, kind: str, asset: str, names: str) -> tuple[Any, list[int]]:
        """Return an asset, and the indices of its bodies that a regular expression names."""
        self.require(kind, "ovphysx")
        entity = entity_of(asset, {**self.base.scene.articulations, **self.base.scene.rigid_objects})
        return entity, indices_of(entity.find_bodies, names, asset, entity.body_names)

    def joints(self, kind: str, asset: str, names: str) -> tuple[Any, list[int]]:
        """Return an articulation, and the indices of its joints that a regular expression names."""
        self.require(kind, "ovphysx")
        entity = entity_of(asset, self.base.scene.articulations)
        return entity, indices_of(entity.find_joints, names, asset, entity.joint_names)


def entity_of(asset: str, entities: Mapping[str, Any]) -> Any:
    """Return an asset of the scene."""
    if asset not in entities:
        raise UserError(f"nothing in the scene that can be perturbed is named {asset!r}: {nearest(asset, entities)}")
    return entities[asset]


def indices_of(find: Callable[[str], Any], names: str, asset: str, known: list[str]) -> list[int]:
    """Return the indices of bodies or joints; shorten Isaac Lab's error to one line."""
    try:
        indices, _ = find(names)
    except ValueError as error:
        raise UserError(f"nothing of {asset!r} is named {names!r}: known: {', '.join(known)}") from error
    return list(indices)
