"""Perturbed slots move as the perturbation says; all others move bit for bit as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import pi, sin
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.panels import perturbations as p
from ledger_lab.panels.physical import DAMPING, EFFORT_LIMIT, MOTOR_PARAMETERS, STIFFNESS, explicit_motor_table
from tests.fakes.held_out import thorough

COUNT = 6
SLOTS = (1, 2, 4)
CHANGED, OTHERS = [1, 4], [0, 2, 3, 5]
"""Of the three slots that may be changed, the middle one gets neutral values."""
CART_SPEED, BOX = 2, 4
"""Columns of what :meth:`World.roll` returns."""
STEP_S, BOX_PUSH_N = 1 / 60, 15.0


class World:
    """A cart-pole and a box on the ground in each slot."""

    def __init__(self, env: Any) -> None:
        from ledger_lab.panels.physical import PhysicalParameters

        self.env = env
        self.robot, self.box = env.unwrapped.scene["robot"], env.unwrapped.scene["box"]
        self.parameters = PhysicalParameters(env, torch.tensor(SLOTS))

    def roll(self, push: float = 0.3, pole: float = 0.3, steps: int = 12) -> torch.Tensor:
        """Start all slots alike, push cart and box, and return what happens.

        Returns:
            Joint positions, joint velocities, position and velocity of the box; shape (steps, COUNT, 10).
        """
        base = self.env.unwrapped
        base.episode_length_buf.zero_()
        self.robot.write_joint_position_to_sim_index(position=torch.tensor([[0.0, pole]]).repeat(COUNT, 1))
        self.robot.write_joint_velocity_to_sim_index(velocity=torch.zeros(COUNT, 2))
        pose = self.box.data.default_root_pose.torch.clone()
        pose[:, :3] += base.scene.env_origins
        self.box.write_root_pose_to_sim_index(root_pose=pose)
        self.box.write_root_velocity_to_sim_index(root_velocity=torch.zeros(COUNT, 6))
        force = torch.tensor([[[BOX_PUSH_N, 0.0, 0.0]]]).repeat(COUNT, 1, 1)
        self.box.permanent_wrench_composer.set_forces_and_torques_index(forces=force)
        states = []
        for _ in range(steps):
            self.env.step(torch.full((COUNT, 1), push))
            place = self.box.data.root_pos_w.torch - base.scene.env_origins
            joints = self.robot.data.joint_pos.torch, self.robot.data.joint_vel.torch
            states.append(torch.cat([*joints, place, self.box.data.root_lin_vel_w.torch], dim=1).clone())
        return torch.stack(states)


def roomy(cfg: Any) -> None:
    """Leave MuJoCo-Warp room for the box's contacts."""
    cfg.sim.physics.solver_cfg.njmax, cfg.sim.physics.solver_cfg.nconmax = 40, 8


def explicit_cart(native: bool, direct_current: bool = False) -> Callable[[Any], None]:
    """Let Newton, or else Isaac Lab, compute the cart's motor, whose strength may fall with its speed."""
    from isaaclab.actuators import DCMotorCfg, IdealPDActuatorCfg

    def change(cfg: Any) -> None:
        roomy(cfg)
        cfg.sim.use_newton_actuators = native
        settings = {"joint_names_expr": ["slider_to_cart"], "stiffness": 50.0, "damping": 10.0}
        settings["actuator_effort_limit"] = 20.0
        cfg.scene.robot.actuators["cart"] = (
            DCMotorCfg(**settings, saturation_effort=60.0, actuator_velocity_limit=100.0)
            if direct_current
            else IdealPDActuatorCfg(**settings)
        )

    return change


WORLDS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "newton": ("newton_mjwarp", roomy),
    "native": ("newton_mujoco", roomy),
    "ovphysx": ("ovphysx", lambda cfg: None),
    "kamino": ("newton_kamino", lambda cfg: None),
    "motor of Newton": ("newton_mjwarp", lambda cfg: explicit_cart(native=True)(cfg)),
    "DC motor of Newton": ("newton_mjwarp", lambda cfg: explicit_cart(native=True, direct_current=True)(cfg)),
    "motor of Isaac Lab": ("newton_mjwarp", lambda cfg: explicit_cart(native=False)(cfg)),
}


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    import isaaclab.sim as sim_utils
    from isaaclab.assets import RigidObjectCfg

    from ledger_lab.panels.physics import is_newton
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.session import environment, recorded_physics, simulation_app

    physics, change = WORLDS[request.param]
    registered_tasks()
    cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", [f"physics={physics}"])
    cfg.sim.device, cfg.seed, cfg.scene.num_envs = "cpu", 5, COUNT
    cfg.terminations.cart_out_of_bounds = None
    box = sim_utils.CuboidCfg(
        size=(0.4, 0.4, 0.2),
        rigid_props=[sim_utils.UsdPhysicsRigidBodyCfg()],
        mass_props=[sim_utils.MassCfg(mass=1.0)],
        collision_props=[sim_utils.UsdPhysicsCollisionCfg()],
    )
    place = RigidObjectCfg.InitialStateCfg(pos=(1.0, 0.0, 0.1))
    cfg.scene.box = RigidObjectCfg(prim_path="{ENV_REGEX_NS}/Box", spawn=box, init_state=place)
    if is_newton(cfg):
        cfg.scene.env_spacing = 0.0
    change(cfg)
    with (
        simulation_app(cfg, {"device": "cpu"}),
        environment("LedgerLab-Cartpole", cfg) as env,
        recorded_physics(env),  # so replayed steps see every change
    ):
        env.reset()
        yield World(env)


def on(*worlds: Any) -> pytest.MarkDecorator:
    """Run a test in these worlds, one after another: a process can have one at a time."""
    return pytest.mark.parametrize("world", worlds, indirect=True)


def values(first: float, neutral: float, last: float) -> torch.Tensor:
    return torch.tensor([first, neutral, last])


CART = "slider_to_cart"
SHIFTS = torch.tensor([[0.0, 0.0, 0.2], [0.0, 0.0, 0.0], [0.0, 0.0, -0.2]])
MASS, BOX_FRICTION = p.Mass(bodies="pole", scale=(1, 1)), p.Friction(asset="box", scale=(1, 1))
STRENGTH, JOINT_DAMPING = p.ActuatorStrength(joints=CART, scale=(1, 1)), p.ActuatorDamping(joints=CART, scale=(1, 1))
DRY = p.JointFriction(joints=CART, add=(0, 0))

PERTURBATIONS: dict[str, Callable[[Any], None]] = {
    "mass": lambda it: MASS.write(it, values(2.0, 1.0, 0.5)),
    "mass of an object": lambda it: p.Mass(asset="box", scale=(1, 1)).write(it, values(2.0, 1.0, 0.5)),
    "center of mass": lambda it: p.CenterOfMass(bodies="pole", offset_m=(0, 0)).write(it, SHIFTS),
    "friction": lambda it: BOX_FRICTION.write(it, values(0.5, 1.0, 1.5)),
    "joint friction": lambda it: DRY.write(it, values(5.0, 0.0, 1.0)),
    "damping": lambda it: JOINT_DAMPING.write(it, values(2.0, 1.0, 0.0)),
    "strength": lambda it: STRENGTH.write(it, values(0.5, 1.0, 2.0)),
    "effort limit": lambda it: it.scale_motors("", "robot", CART, EFFORT_LIMIT, values(1e-3, 1.0, 5e-3)),
}
TILT: dict[str, Callable[[Any], None]] = {
    "gravity tilt": lambda it: p.GravityTilt(angle_rad=(0, 0)).write(it, values(0.2, 0.0, 0.1), values(0.0, 1.0, 2.0))
}
MOTOR: dict[str, Callable[[Any], None]] = {
    "stiffness": lambda it: it.scale_motors("", "robot", CART, STIFFNESS, values(0.0, 1.0, 8.0)),
    "damping": lambda it: it.scale_motors("", "robot", CART, DAMPING, values(2.0, 1.0, 0.0)),
    "effort limit": lambda it: it.scale_motors("", "robot", CART, EFFORT_LIMIT, values(0.5, 1.0, 2.0)),
}


def check(world: World, changes: dict[str, Callable[[Any], None]]) -> None:
    """Require that each change moves the slots that it changes, and no others, and that nothing of it is left."""
    before = world.roll()
    for name, change in changes.items():
        with torch.inference_mode():  # as in a library's rollout
            change(world.parameters)
            perturbed = world.roll()
        world.parameters.restore()
        difference = (perturbed - before).abs().amax(dim=(0, 2))
        assert (difference[CHANGED] > 5e-3).all(), (name, difference)
        assert torch.equal(perturbed[:, OTHERS], before[:, OTHERS]), (name, difference)
        assert not torch.equal(perturbed[:, 1], perturbed[:, 4]), name
    assert torch.equal(world.roll(), before)


@on("newton", "native", "ovphysx")
def test_only_perturbed_slots_move_differently_until_they_are_restored(world: World) -> None:
    check(world, PERTURBATIONS | (TILT if world.parameters.is_mujoco else {}))


@on("motor of Newton", thorough("DC motor of Newton"), "motor of Isaac Lab")
def test_motors_are_perturbed_wherever_they_are_computed(world: World) -> None:
    check(world, MOTOR)
    if world.robot.actuators._native_group_names:
        with pytest.raises(UserError, match="Newton computes its actuators"):
            PERTURBATIONS["strength"](world.parameters)
        world.parameters.restore()


@on("newton")
def test_gravity_acts_along_the_slope_and_is_sensed_there(world: World) -> None:
    JOINT_DAMPING.write(world.parameters, torch.zeros(3))
    angles, along_the_rail = values(0.1, 0.0, -0.2), torch.full((3,), pi / 2)
    p.GravityTilt(angle_rad=(0, 0)).write(world.parameters, angles, along_the_rail)
    speed = world.roll(push=0.0, pole=pi)[-1, :, CART_SPEED]
    sensed = world.robot.data.projected_gravity_b.torch[:, 1].tolist()
    world.parameters.restore()
    expected = [9.81 * sin(angle) * 12 * STEP_S for angle in angles.tolist()]
    assert speed[list(SLOTS)].tolist() == pytest.approx(expected, abs=1e-4)
    assert sensed == pytest.approx([0.0, sin(0.1), 0.0, 0.0, sin(-0.2), 0.0], abs=1e-6)


@on("newton", "ovphysx")
def test_motion_follows_from_mass_friction_and_strength(world: World) -> None:
    pushed_less, pushed_half = world.roll(push=0.2, pole=pi)[:, 0, CART_SPEED], world.roll(push=0.15)[:, 1]
    JOINT_DAMPING.write(world.parameters, torch.zeros(3))
    p.Mass(scale=(1, 1)).write(world.parameters, values(2.0, 1.0, 0.5))
    speed = world.roll(push=0.3, pole=pi, steps=2)[-1, list(SLOTS), CART_SPEED]
    world.parameters.restore()
    assert (speed / speed[1]).tolist() == pytest.approx([0.5, 1.0, 2.0], rel=0.01)

    DRY.write(world.parameters, values(10.0, 0.0, 0.0))
    speed = world.roll(push=0.3, pole=pi)[:, 1, CART_SPEED]
    world.parameters.restore()
    assert torch.allclose(speed, pushed_less, rtol=0.03)

    STRENGTH.write(world.parameters, values(0.5, 1.0, 1.0))
    for parameter in MOTOR_PARAMETERS:  # what remains is the command
        world.parameters.scale_motors("", "robot", CART, parameter, values(2.0, 1.0, 1.0))
    weak = world.roll(push=0.3)[:, 1]
    world.parameters.restore()
    assert torch.equal(weak, pushed_half)


@on("newton")
def test_contacts_are_slippery_although_all_slots_share_the_ground(world: World) -> None:
    from isaaclab_newton.physics import NewtonManager

    BOX_FRICTION.write(world.parameters, values(0.5, 1.0, 0.25))
    way = world.roll()[-1, list(SLOTS), BOX]
    data = NewtonManager._solver.mjw_data
    worlds, friction = data.contact.worldid.numpy(), data.contact.friction.numpy()[:, 0]
    touching = {int(worlds[i]): float(friction[i]) for i in range(int(data.nacon.numpy()[0]))}
    world.parameters.restore()
    assert touching == {0: 1.0, 1: 0.5, 2: 1.0, 3: 1.0, 4: 0.25, 5: 1.0}
    assert way[2] > way[0] > way[1]


@on("newton", "ovphysx", "kamino")
def test_what_an_engine_or_a_scene_cannot_do_is_refused(world: World) -> None:
    engine = world.parameters.engine
    refused: dict[str, Any] = {"newton/mjwarp": {}, "ovphysx": TILT}.get(engine, PERTURBATIONS | TILT)
    for change in refused.values():
        with pytest.raises(UserError, match=rf"^the perturbation '\w*' cannot be done by {engine}$"):
            change(world.parameters)
    if engine == "newton/kaminopadmm":
        return
    for part, complaint in (
        (p.Mass(asset="robt", scale=(1, 1)), "'robt'.*did you mean 'robot'"),
        (p.Mass(bodies="arm", scale=(1, 1)), "'robot' is named 'arm': known: rail, cart, pole"),
        (p.Friction(scale=(1, 1)), "'robot' has none"),
    ):
        with pytest.raises(UserError, match=complaint):
            part.write(world.parameters, torch.ones(3))


def test_a_weaker_motor_of_isaac_lab_never_exceeds_its_limit() -> None:
    from isaaclab.actuators import DCMotor, DCMotorCfg

    limits = {"saturation_effort": 120.0, "actuator_effort_limit": 80.0, "actuator_velocity_limit": 7.5}
    cfg = DCMotorCfg(joint_names_expr=[".*"], stiffness=0.0, damping=0.0, **limits)
    motor = DCMotor(cfg, joint_names=["knee"], joint_ids=slice(None), num_envs=2, device="cpu")
    explicit_motor_table(motor, EFFORT_LIMIT).write(torch.tensor([[56.0]]), torch.tensor([1]))
    fast = motor._clip_effort(torch.full((2, 1), -500.0), torch.full((2, 1), 12.5))
    assert fast.flatten().tolist() == pytest.approx([-80.0, -56.0])
