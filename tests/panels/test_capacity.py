"""The watch reports the slots for which MuJoCo-Warp dropped contacts or constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

COUNT = 6


@contextmanager
def cartpoles(change: Callable[[Any], None], *overrides: str) -> Iterator[Any]:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.session import environment, simulation_app

    registered_tasks()
    cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", overrides)
    cfg.sim.device, cfg.seed, cfg.scene.num_envs, cfg.scene.env_spacing = "cpu", 5, COUNT, 0.0
    cfg.terminations.cart_out_of_bounds = None
    change(cfg)
    with simulation_app(cfg, {"device": "cpu"}), environment("LedgerLab-Cartpole", cfg) as env:
        env.reset()
        start(env, torch.zeros(COUNT), torch.zeros(COUNT))
        yield env


def start(env: Any, places: torch.Tensor, speeds: torch.Tensor) -> None:
    """Put the carts at places of their rails, with hanging poles."""
    robot, zeros = env.unwrapped.scene["robot"], torch.zeros(COUNT)
    robot.write_joint_position_to_sim_index(position=torch.stack([places, zeros + torch.pi], dim=1))
    robot.write_joint_velocity_to_sim_index(velocity=torch.stack([speeds, zeros], dim=1))


def one_constraint(cfg: Any) -> None:
    cfg.sim.physics.solver_cfg.njmax = 1


def one_constraint_and_newtons_motors(cfg: Any) -> None:
    """Let Newton do all physics steps of an environment step in one call."""
    from isaaclab.actuators import IdealPDActuatorCfg

    one_constraint(cfg)
    cfg.scene.robot.actuators["cart"] = IdealPDActuatorCfg(
        joint_names_expr=["slider_to_cart"], stiffness=0.0, damping=10.0, actuator_effort_limit=400.0
    )


def two_solver_steps(cfg: Any) -> None:
    one_constraint(cfg)
    cfg.decimation, cfg.sim.render_interval, cfg.sim.physics.num_substeps = 1, 1, 2


def boxes(contacts_per_slot: int, mujoco_contacts: bool = True) -> Callable[[Any], None]:
    """Hang a box in the air of each slot."""
    import isaaclab.sim as sim_utils
    from isaaclab.assets import RigidObjectCfg

    def change(cfg: Any) -> None:
        solver = cfg.sim.physics.solver_cfg
        solver.njmax, solver.nconmax, solver.use_mujoco_contacts = 40, contacts_per_slot, mujoco_contacts
        box = sim_utils.CuboidCfg(
            size=(0.4, 0.4, 0.2),
            rigid_props=[sim_utils.UsdPhysicsRigidBodyCfg()],
            mass_props=[sim_utils.MassCfg(mass=1.0)],
            collision_props=[sim_utils.UsdPhysicsCollisionCfg()],
        )
        place = RigidObjectCfg.InitialStateCfg(pos=(1.0, 0.0, 3.0))
        cfg.scene.box = RigidObjectCfg(prim_path="{ENV_REGEX_NS}/Box", spawn=box, init_state=place)

    return change


def put_on_the_ground(env: Any, slots: list[int]) -> None:
    """Put boxes on the ground, where each has four contacts."""
    box = env.unwrapped.scene["box"]
    pose = box.data.default_root_pose.torch.clone()
    pose[slots, 2] = 0.1
    box.write_root_pose_to_sim_index(root_pose=pose)
    box.write_root_velocity_to_sim_index(root_velocity=torch.zeros(COUNT, 6))


def used(watch: Any, what: str) -> tuple[int, int]:
    """Return how much of a capacity was needed, and the capacity."""
    return watch.used()[f"{what}s"], watch.used()[f"{what}_capacity"]


def step(env: Any) -> None:
    env.step(torch.zeros(COUNT, 1))


@pytest.mark.parametrize("change", [two_solver_steps, one_constraint_and_newtons_motors])
def test_an_overflow_at_any_substep_is_attributed_to_its_slot(change: Callable[[Any], None]) -> None:
    from isaaclab_newton.physics import NewtonManager

    from ledger_lab.panels.capacity import CapacityWatch
    from ledger_lab.panels.perturbations import JointFriction
    from ledger_lab.panels.physical import PhysicalParameters
    from ledger_lab.training.runners.session import recorded_physics

    with cartpoles(change) as env, recorded_physics(env):
        friction = JointFriction(joints="cart_to_pole", add=(1e-3, 1e-3))
        friction.write(PhysicalParameters(env, torch.arange(COUNT)), torch.full((COUNT,), 1e-3))
        step(env)  # what is recorded so far has no watch in it
        watch = CapacityWatch.attach(env)
        assert watch is not None
        for _ in range(3):
            step(env)
            assert not watch.overflowed().any()
        assert used(watch, "constraint") == (1, 1)
        # Beyond the end of the rail on the way back: a second constraint, until the second substep.
        start(env, torch.tensor([0.0, 4.001, 0.0, 0.0, -4.001, 0.0]), torch.tensor([0.0, -1.0, 0.0, 0.0, 1.0, 0.0]))
        step(env)
        assert NewtonManager._solver.mjw_data.nefc.numpy().tolist() == [1] * COUNT, "it is over when the step is"
        assert watch.overflowed().tolist() == [False, True, False, False, True, False]
        step(env)
        assert not watch.overflowed().any()
        assert used(watch, "constraint") == (2, 1)
        assert watch.advice() == "raise env.sim.physics.solver_cfg.njmax from 1 to at least 2"


@pytest.mark.parametrize("mujoco_contacts", [True, False])
def test_an_overflow_of_a_shared_pool_affects_every_slot(mujoco_contacts: bool) -> None:
    from ledger_lab.panels.capacity import CapacityWatch

    with cartpoles(boxes(contacts_per_slot=1, mujoco_contacts=mujoco_contacts)) as env:
        watch = CapacityWatch.attach(env)
        assert watch is not None
        step(env)
        assert not watch.overflowed().any(), "all boxes are in the air"
        put_on_the_ground(env, [1, 4])
        step(env)
        assert watch.overflowed().all()
        assert used(watch, "contact") == (8, 6)
        assert watch.advice() == "raise env.sim.physics.solver_cfg.nconmax from 1 to at least 2"


def test_with_mujocos_own_code_the_advice_tells_sensors_from_memory() -> None:
    from isaaclab_newton.physics import NewtonManager

    from ledger_lab.panels.capacity import CapacityWatch

    with cartpoles(boxes(contacts_per_slot=1), "physics=newton_mujoco") as env:
        watch = CapacityWatch.attach(env)
        assert watch is not None
        put_on_the_ground(env, [1, 4])
        step(env)
        assert watch.overflowed().all(), "they share one array"
        for_sensors = "raise env.sim.physics.solver_cfg.nconmax from 1 to at least 2"
        assert watch.advice() == for_sensors
        stepper = NewtonManager._solver.stepper
        stepper.status.numpy()[3] |= stepper.OUT_OF_MEMORY
        step(env)
        assert watch.overflowed()[3]
        assert watch.advice() == (
            f"{for_sensors} and use fewer or simpler shapes, because MuJoCo had no memory for so many contacts"
        )


def test_an_overflow_of_triangle_pairs_affects_every_slot() -> None:
    from ledger_lab.panels.capacity import CapacityWatch
    from tests.fakes.robots import simulated

    task, terrain = "LedgerLab-Velocity-Rough-AnymalC", "env.scene.terrain.terrain_generator"
    pairs = "env.sim.physics.collision_cfg.max_triangle_pairs=20"
    small = (f"{terrain}.num_rows=2", f"{terrain}.border_width=4.0", pairs)
    with simulated(task, "newton_mjwarp", COUNT, *small) as env:
        watch = CapacityWatch.attach(env)
        assert watch is not None
        env.reset()
        for _ in range(20):  # until all stand on the ground
            env.step(torch.zeros(COUNT, 12))
        assert watch.overflowed().tolist() == [True] * COUNT
        for what in ("contact", "constraint"):
            needed, capacity = used(watch, what)
            assert needed <= capacity
        assert watch.advice() == "raise env.sim.physics.collision_cfg.max_triangle_pairs from 20"


def test_within_the_capacities_nothing_is_reported_and_the_physics_is_unchanged() -> None:
    from ledger_lab.panels.capacity import CapacityWatch

    def run(env: Any) -> torch.Tensor:
        start(env, torch.linspace(-4.0, 4.0, COUNT), torch.zeros(COUNT))
        put_on_the_ground(env, [*range(COUNT)])
        positions = []
        for _ in range(5):
            step(env)
            positions.append(env.unwrapped.scene["robot"].data.joint_pos.torch.clone())
        return torch.stack(positions)

    with cartpoles(boxes(contacts_per_slot=6)) as env:
        unwatched = run(env)
        watch = CapacityWatch.attach(env)
        assert watch is not None
        assert torch.equal(run(env), unwatched)
        assert not watch.overflowed().any()
        assert used(watch, "contact") == (24, 36)
        watch.detach()
        assert "step" not in vars(watch._solver)
        assert torch.equal(run(env), unwatched)
