"""Physical parameters of single slots: masses, friction, motors, gravity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.errors import UserError, nearest
from ledger_lab.panels.parameter_tables import (
    DAMPING,
    EFFORT_LIMIT,
    STIFFNESS,
    MotorParameter,
    ParameterTable,
    asset_table,
    delivered_effort_table,
    explicit_motor_table,
    gravity_table,
    native_motor_table,
    newton_friction_table,
    newton_ground_friction_table,
    physx_friction_table,
)
from ledger_lab.panels.physics import is_mujoco, physics_name
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

type Names = str | list[str]
"""Regular expressions of bodies or joints, as in Isaac Lab's ``SceneEntityCfg``."""

_OVPHYSX = "ovphysx"


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
        self._base = base = env.unwrapped
        self._slots = slots.to("cpu", torch.int32)
        """On the host, like all values of perturbations, so that it knows what changes without asking a GPU."""
        self._engine, self._is_mujoco = physics_name(base.cfg), is_mujoco(base.cfg)
        self._built: dict[str, tuple[ParameterTable, torch.Tensor, torch.Tensor]] = {}
        self._hooked: dict[str, ParameterTable] = {}

    def restore(self) -> None:
        """Restore all values from before the first change.

        On Newton, motion then repeats bit for bit. OvPhysX converts each inertia to principal axes of its own choice,
        so there motion repeats up to rounding.
        """
        for table, rows, changes in reversed(self._built.values()):
            changed = changes.nonzero().squeeze(1)
            table.write(rows[self._there(changed)], self._there(self._slots[changed]))
        self._built.clear()

    def scale_mass(self, asset: str, bodies: Names, factors: torch.Tensor) -> None:
        """Scale masses and inertias.

        Args:
            asset: Name of an articulation or rigid object in the scene.
            bodies: Its bodies.
            factors: Shape (n,).
        """
        entity, columns = self._bodies("mass", asset, bodies)
        for attribute, what in (("body_mass", "masses"), ("body_inertia", "inertias")):
            table = asset_table(entity, attribute, f"set_{what}_index", what)
            self._scale(f"{asset}/{what}", table, columns, factors)

    def shift_center_of_mass(self, asset: str, bodies: Names, offsets_m: torch.Tensor) -> None:
        """Move centers of mass.

        Args:
            asset: Name of an articulation or rigid object in the scene.
            bodies: Its bodies.
            offsets_m: Offsets in the frame of the body [m]; shape (n, 3).
        """
        entity, columns = self._bodies("center_of_mass", asset, bodies)
        attribute = "body_com_pos_b" if self._is_mujoco else "body_com_pose_b"
        offsets = offsets_m.cpu()

        def shift(rows: torch.Tensor, changed: torch.Tensor) -> None:
            rows[:, columns, :3] += self._there(offsets[changed]).unsqueeze(1)

        table = asset_table(entity, attribute, "set_coms_index", "coms")
        self._change(f"{asset}/center_of_mass", table, (offsets != 0.0).any(dim=-1), shift)

    def scale_friction(self, asset: str, bodies: Names, factors: torch.Tensor) -> None:
        """Scale the friction of contacts, static and dynamic.

        MuJoCo uses the larger coefficient of two shapes in contact, or only that of the shape with the higher priority.
        So the ground and all other shared shapes are scaled, too, for the same slots. Contacts with another asset keep
        their friction if its coefficient is larger or its priority is higher: then that asset must be named. PhysX
        combines the coefficients as the materials specify; its ground is not changed.

        Args:
            asset: Name of an articulation or rigid object in the scene.
            bodies: Its bodies; with PhysX all of them.
            factors: Shape (n,).
        """
        entity, columns = self._bodies("friction", asset, bodies)
        if self._is_mujoco:
            table = newton_friction_table(self._base, entity)
            links = getattr(entity, "map_body_ids_to_backend", list)(columns)
            shapes = [shape for link in links for shape in entity.root_view.body_shapes[link]]
        elif len(columns) == entity.num_bodies:
            table = physx_friction_table(entity)
            shapes = list(range(table.read().shape[1]))
        else:
            raise UserError(f"the perturbation 'friction' of single bodies cannot be done by {self._engine}")
        if not shapes:
            raise UserError(f"the perturbation 'friction' needs collision shapes, and {asset!r} has none there")
        self._scale(f"{asset}/friction", table, shapes, factors)
        if self._is_mujoco:
            ground = self._hook("ground", lambda: newton_ground_friction_table(self._base))
            self._scale("ground/friction", ground, [0], factors)

    def add_joint_friction(self, asset: str, joints: Names, values: torch.Tensor) -> None:
        """Add dry friction to joints. For MuJoCo-Warp, each such joint is one more constraint (``njmax``).

        Args:
            asset: Name of an articulation in the scene.
            joints: Its joints.
            values: Force or torque that resists motion [N or N m]; shape (n,).
        """
        entity, columns = self._joints("joint_friction", asset, joints)
        values = values.cpu()

        def add(rows: torch.Tensor, changed: torch.Tensor) -> None:
            rows[:, columns] += self._there(values[changed]).unsqueeze(1)

        for kind in ["joint_friction"] if self._is_mujoco else ["joint_friction", "joint_dynamic_friction"]:
            table = asset_table(entity, f"{kind}_coeff", f"write_{kind}_coefficient_to_sim_index", f"{kind}_coeff")
            self._change(f"{asset}/{kind}", table, values != 0.0, add)

    def scale_gains(
        self, asset: str, joints: Names, stiffness_factors: torch.Tensor, damping_factors: torch.Tensor
    ) -> None:
        """Scale the gains with which motors follow positions and velocities.

        Args:
            asset: Name of an articulation in the scene.
            joints: Its joints.
            stiffness_factors: Shape (n,).
            damping_factors: Shape (n,).
        """
        self._scale_motors("gains", asset, joints, STIFFNESS, stiffness_factors)
        self._scale_motors("gains", asset, joints, DAMPING, damping_factors)

    def scale_effort_limit(self, asset: str, joints: Names, factors: torch.Tensor) -> None:
        """Scale the largest effort with which motors follow positions and velocities.

        The engines do not limit efforts that are commanded directly; use :meth:`scale_effort` for them.

        Args:
            asset: Name of an articulation in the scene.
            joints: Its joints.
            factors: Shape (n,).
        """
        self._scale_motors("effort_limit", asset, joints, EFFORT_LIMIT, factors)

    def scale_effort(self, asset: str, joints: Names, factors: torch.Tensor) -> None:
        """Scale the efforts that motors deliver for commanded efforts.

        Args:
            asset: Name of an articulation in the scene, whose actuators are not computed by Newton.
            joints: Its joints.
            factors: Shape (n,).
        """
        entity, columns = self._joints("effort", asset, joints)
        if entity.actuators._native_group_names:
            raise UserError(f"the perturbation 'effort' cannot be done to {asset!r}: Newton computes its actuators")
        table = self._hook(asset, lambda: delivered_effort_table(entity))
        self._scale(f"{asset}/effort", table, columns, factors)

    def tilt_gravity(self, angles_rad: torch.Tensor, directions_rad: torch.Tensor) -> None:
        """Tilt gravity, as if the slot stood on a slope. A second tilt replaces the first.

        Args:
            angles_rad: Angle from the vertical [rad]; shape (n,).
            directions_rad: Horizontal direction of the tilt, from +x towards +y [rad]; shape (n,).
        """
        self._require("gravity_tilt")
        angles, directions = angles_rad.cpu(), directions_rad.cpu()

        def tilt(rows: torch.Tensor, changed: torch.Tensor) -> None:
            angle, direction = self._there(angles[changed]), self._there(directions[changed])
            vector = [angle.sin() * direction.cos(), angle.sin() * direction.sin(), -angle.cos()]
            rows[:] = rows.norm(dim=1, keepdim=True) * torch.stack(vector, dim=1)

        self._change("gravity", gravity_table(self._base), angles != 0.0, tilt)

    def drives_by_effort(self, asset: str) -> bool:
        """Tell whether the task commands the efforts of an asset; a weaker motor must scale these commands down.

        Args:
            asset: Name of an articulation in the scene.
        """
        from isaaclab.envs.mdp import JointEffortAction

        terms = self._base.action_manager._terms.values()
        return any(isinstance(term, JointEffortAction) and term.cfg.asset_name == asset for term in terms)

    def _scale_motors(
        self, perturbation: str, asset: str, joints: Names, parameter: MotorParameter, factors: torch.Tensor
    ) -> None:
        """Scale a motor parameter, wherever it is stored."""
        entity, columns = self._joints(perturbation, asset, joints)
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
            self._scale(name, table, places, factors)

    def _scale(self, name: str, table: ParameterTable, columns: list[int] | slice, factors: torch.Tensor) -> None:
        """Multiply columns of a table by a factor per slot."""
        factors = factors.cpu()

        def scale(rows: torch.Tensor, changed: torch.Tensor) -> None:
            rows[:, columns] *= self._there(factors[changed]).reshape(-1, *[1] * (rows.dim() - 1))

        self._change(name, table, factors != 1.0, scale)

    def _change(
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
        if changes.shape != self._slots.shape:
            raise ValueError(f"{name}: values of shape {tuple(changes.shape)} for {len(self._slots)} slots")
        if not changes.any():
            return
        if name in self._built:
            table, built, changed_before = self._built[name]
            self._built[name] = table, built, changed_before | changes
        else:
            self._built[name] = table, table.read()[self._there(self._slots)].clone(), changes
        changed = changes.nonzero().squeeze(1)
        slots = self._there(self._slots[changed])
        rows = table.read()[slots].clone()
        edit(rows, changed)
        table.write(rows, slots)

    def _there(self, values: torch.Tensor) -> torch.Tensor:
        """Copy values of the host to the device of the simulation, without waiting for it."""
        return to_device(values, self._base.device)

    def _hook(self, name: str, build: Callable[[], ParameterTable]) -> ParameterTable:
        """Return a table that hooks into the simulation; create it at the first call only."""
        if name not in self._hooked:
            self._hooked[name] = build()
        return self._hooked[name]

    def _require(self, perturbation: str, *engines: str) -> None:
        """Refuse a perturbation if the scene uses neither MuJoCo nor one of some other engines."""
        if not self._is_mujoco and self._engine not in engines:
            raise UserError(f"the perturbation {perturbation!r} cannot be done by {self._engine}")

    def _bodies(self, perturbation: str, asset: str, names: Names) -> tuple[Any, list[int]]:
        """Return an asset and the indices of its bodies."""
        self._require(perturbation, _OVPHYSX)
        entity = _entity(asset, {**self._base.scene.articulations, **self._base.scene.rigid_objects})
        return entity, _indices(entity.find_bodies, names, asset, entity.body_names)

    def _joints(self, perturbation: str, asset: str, names: Names) -> tuple[Any, list[int]]:
        """Return an articulation and the indices of its joints."""
        self._require(perturbation, _OVPHYSX)
        entity = _entity(asset, self._base.scene.articulations)
        return entity, _indices(entity.find_joints, names, asset, entity.joint_names)


def _entity(asset: str, entities: Mapping[str, Any]) -> Any:
    """Return an asset of the scene."""
    if asset not in entities:
        raise UserError(f"nothing in the scene that can be perturbed is named {asset!r}: {nearest(asset, entities)}")
    return entities[asset]


def _indices(find: Callable[[Names], Any], names: Names, asset: str, known: list[str]) -> list[int]:
    """Return the indices of bodies or joints; shorten Isaac Lab's error to one line."""
    try:
        indices, _ = find(names)
    except ValueError as error:
        raise UserError(f"nothing of {asset!r} is named {names!r}: known: {', '.join(known)}") from error
    return list(indices)
