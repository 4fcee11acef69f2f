"""Perturbed slots move as the perturbation says; all others move bit for bit as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import pi, sin
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
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
    from ledger_lab.training.runners.session import environment, simulation_app

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
    with simulation_app(cfg, {"device": "cpu"}), environment("LedgerLab-Cartpole", cfg) as env:
        env.reset()
        yield World(env)


def on(*worlds: Any) -> pytest.MarkDecorator:
    """Run a test in these worlds, one after another: a process can have one at a time."""
    return pytest.mark.parametrize("world", worlds, indirect=True)


def values(first: float, neutral: float, last: float) -> torch.Tensor:
    return torch.tensor([first, neutral, last])


ONES = torch.ones(3)
SHIFTS = torch.tensor([[0.0, 0.0, 0.2], [0.0, 0.0, 0.0], [0.0, 0.0, -0.2]])

PERTURBATIONS: dict[str, Callable[[Any], None]] = {
    "mass": lambda it: it.scale_mass("robot", "pole", values(2.0, 1.0, 0.5)),
    "mass of an object": lambda it: it.scale_mass("box", ".*", values(2.0, 1.0, 0.5)),
    "center of mass": lambda it: it.shift_center_of_mass("robot", "pole", SHIFTS),
    "friction": lambda it: it.scale_friction("box", ".*", values(0.5, 1.0, 1.5)),
    "joint friction": lambda it: it.add_joint_friction("robot", "slider_to_cart", values(5.0, 0.0, 1.0)),
    "damping": lambda it: it.scale_gains("robot", "slider_to_cart", ONES, values(2.0, 1.0, 0.0)),
    "effort limit": lambda it: it.scale_effort_limit("robot", "slider_to_cart", values(1e-3, 1.0, 5e-3)),
    "effort": lambda it: it.scale_effort("robot", "slider_to_cart", values(0.5, 1.0, 2.0)),
}
TILT: dict[str, Callable[[Any], None]] = {
    "gravity tilt": lambda it: it.tilt_gravity(values(0.2, 0.0, 0.1), values(0.0, 1.0, 2.0))
}
MOTOR: dict[str, Callable[[Any], None]] = {
    "stiffness": lambda it: it.scale_gains("robot", "slider_to_cart", values(0.0, 1.0, 8.0), ONES),
    "damping": lambda it: it.scale_gains("robot", "slider_to_cart", ONES, values(2.0, 1.0, 0.0)),
    "effort limit": lambda it: it.scale_effort_limit("robot", "slider_to_cart", values(0.5, 1.0, 2.0)),
}


def check(world: World, change: Callable[[Any], None]) -> None:
    before = world.roll()
    with torch.inference_mode():  # as in a library's rollout
        change(world.parameters)
        perturbed = world.roll()
    world.parameters.restore()
    after = world.roll()
    difference = (perturbed - before).abs().amax(dim=(0, 2))
    assert (difference[CHANGED] > 5e-3).all(), difference
    assert torch.equal(perturbed[:, OTHERS], before[:, OTHERS]), difference
    assert not torch.equal(perturbed[:, 1], perturbed[:, 4])
    assert torch.equal(after, before)


@on("newton", "native", "ovphysx")
@pytest.mark.parametrize("name", PERTURBATIONS)
def test_only_perturbed_slots_move_differently_until_they_are_restored(world: World, name: str) -> None:
    check(world, PERTURBATIONS[name])


@on("newton", "native")
def test_gravity_is_tilted_only_in_perturbed_slots(world: World) -> None:
    check(world, TILT["gravity tilt"])


@on("motor of Newton", thorough("DC motor of Newton"), "motor of Isaac Lab")
@pytest.mark.parametrize("name", MOTOR)
def test_motors_are_perturbed_wherever_they_are_computed(world: World, name: str) -> None:
    check(world, MOTOR[name])


@on("newton")
def test_a_cart_on_a_slope_accelerates_by_its_sine(world: World) -> None:
    world.parameters.scale_gains("robot", "slider_to_cart", ONES, torch.zeros(3))
    along_the_rail = torch.full((3,), pi / 2)
    world.parameters.tilt_gravity(values(0.1, 0.0, -0.2), along_the_rail)
    speed = world.roll(push=0.0, pole=pi)[-1, :, CART_SPEED]
    world.parameters.restore()
    expected = [9.81 * sin(angle) * 12 * STEP_S for angle in (0.1, 0.0, -0.2)]
    assert speed[list(SLOTS)].tolist() == pytest.approx(expected, abs=1e-4)


@on("newton")
def test_the_sensed_direction_of_gravity_tilts_too(world: World) -> None:
    world.parameters.tilt_gravity(values(0.1, 0.0, 0.2), torch.zeros(3))
    world.roll(steps=1)
    sensed = world.robot.data.projected_gravity_b.torch[:, 0].tolist()
    world.parameters.restore()
    assert sensed == pytest.approx([0.0, sin(0.1), 0.0, 0.0, sin(0.2), 0.0], abs=1e-6)


@on("newton", "ovphysx")
def test_twice_the_mass_is_half_as_fast(world: World) -> None:
    world.parameters.scale_gains("robot", "slider_to_cart", ONES, torch.zeros(3))
    world.parameters.scale_mass("robot", ".*", values(2.0, 1.0, 0.5))
    speed = world.roll(push=0.3, pole=pi, steps=2)[-1, list(SLOTS), CART_SPEED]
    world.parameters.restore()
    assert (speed / speed[1]).tolist() == pytest.approx([0.5, 1.0, 2.0], rel=0.01)


@on("newton", "ovphysx")
def test_joint_friction_reduces_the_force_of_a_push(world: World) -> None:
    pushed_less = world.roll(push=0.2, pole=pi)[:, 0, CART_SPEED]
    world.parameters.add_joint_friction("robot", "slider_to_cart", values(10.0, 0.0, 0.0))
    speed = world.roll(push=0.3, pole=pi)[:, 1, CART_SPEED]
    world.parameters.restore()
    assert torch.allclose(speed, pushed_less, rtol=0.03)


@on("newton", "ovphysx")
def test_half_the_effort_is_half_the_command(world: World) -> None:
    pushed_half = world.roll(push=0.15)[:, 1]
    world.parameters.scale_effort("robot", "slider_to_cart", values(0.5, 1.0, 1.0))
    weak = world.roll(push=0.3)[:, 1]
    world.parameters.restore()
    assert torch.equal(weak, pushed_half)


@on("newton")
def test_contacts_are_slippery_although_all_slots_share_the_ground(world: World) -> None:
    from isaaclab_newton.physics import NewtonManager

    world.parameters.scale_friction("box", ".*", values(0.5, 1.0, 0.25))
    way = world.roll()[-1, list(SLOTS), BOX]
    data = NewtonManager._solver.mjw_data
    worlds, friction = data.contact.worldid.numpy(), data.contact.friction.numpy()[:, 0]
    touching = {int(worlds[i]): float(friction[i]) for i in range(int(data.nacon.numpy()[0]))}
    world.parameters.restore()
    assert touching == {0: 1.0, 1: 0.5, 2: 1.0, 3: 1.0, 4: 0.25, 5: 1.0}
    assert way[2] > way[0] > way[1]


@on("newton")
@pytest.mark.thorough  # the held-out episodes of other tests are replayed steps
def test_replayed_steps_see_every_change(world: World) -> None:
    from ledger_lab.training.runners.session import recorded_physics

    def run() -> torch.Tensor:
        rolls = [world.roll()]
        for change in [*PERTURBATIONS.values(), *TILT.values()]:
            change(world.parameters)
            rolls.append(world.roll())
        world.parameters.restore()
        return torch.stack([*rolls, world.roll()])

    launched = run()
    with recorded_physics(world.env):
        replayed = run()
    assert torch.equal(launched, replayed)
    assert torch.equal(launched[0], launched[-1])


@on("ovphysx")
def test_ovphysx_has_one_gravity_for_all(world: World) -> None:
    with pytest.raises(UserError, match=r"^the perturbation 'gravity_tilt' cannot be done by ovphysx$"):
        TILT["gravity tilt"](world.parameters)


@on("kamino")
def test_other_solvers_are_refused(world: World) -> None:
    for change in (*PERTURBATIONS.values(), *TILT.values()):
        with pytest.raises(UserError, match=r"^the perturbation '\w+' cannot be done by newton/kaminopadmm$"):
            change(world.parameters)


@on("motor of Newton")
def test_newtons_own_motors_have_no_effort_to_scale(world: World) -> None:
    with pytest.raises(UserError, match="Newton computes its actuators"):
        PERTURBATIONS["effort"](world.parameters)


@on("newton", "ovphysx")
def test_unknown_names_are_refused(world: World) -> None:
    with pytest.raises(UserError, match="'robt'.*did you mean 'robot'"):
        world.parameters.scale_mass("robt", "pole", ONES)
    with pytest.raises(UserError, match="'robot' is named 'arm': known: rail, cart, pole"):
        world.parameters.scale_mass("robot", "arm", ONES)
    with pytest.raises(UserError, match="'robot' has none"):
        world.parameters.scale_friction("robot", ".*", ONES)
    with pytest.raises(ValueError, match="for 3 slots"):
        world.parameters.scale_mass("robot", "pole", torch.ones(2))


def test_a_weaker_motor_of_isaac_lab_never_exceeds_its_limit() -> None:
    from isaaclab.actuators import DCMotor, DCMotorCfg

    from ledger_lab.panels.parameter_tables import EFFORT_LIMIT, explicit_motor_table

    cfg = DCMotorCfg(
        joint_names_expr=[".*"],
        saturation_effort=120.0,
        actuator_effort_limit=80.0,
        actuator_velocity_limit=7.5,
        stiffness=0.0,
        damping=0.0,
    )
    motor = DCMotor(cfg, joint_names=["knee"], joint_ids=slice(None), num_envs=2, device="cpu")
    explicit_motor_table(motor, EFFORT_LIMIT).write(torch.tensor([[56.0]]), torch.tensor([1]))
    fast = motor._clip_effort(torch.full((2, 1), -500.0), torch.full((2, 1), 12.5))
    assert fast.flatten().tolist() == pytest.approx([-80.0, -56.0])
