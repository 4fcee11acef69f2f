"""In each physics engine on the CPU, the robots take their described poses, stand, and feel their feet."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pinocchio
import pytest
import torch

from ledger_lab.tasks.assets import DESCRIPTIONS
from tests.fakes.robots import ENGINES

NAMES = ("anymal_c", "go2", "panda", "stiff_panda", "humanoid")
SPREAD_M = 3.0
"""Between neighboring robots along y."""
JOINTS = {
    "anymal_c": [f"{leg}_{part}" for part in ("HAA", "HFE", "KFE") for leg in ("LF", "LH", "RF", "RH")],
    "go2": [f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")],
    "panda": [*(f"panda_joint{n}" for n in range(1, 8)), "panda_finger_joint1", "panda_finger_joint2"],
}
"""Isaac Lab's order: that of PhysX, which goes outwards from the base, on Newton too."""
FEET = {
    "anymal_c": ["LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"],
    "go2": ["FL_foot", "FR_foot", "RL_foot", "RR_foot"],
    "humanoid": ["left_foot", "right_foot"],
}
STANDING_M = {"anymal_c": (0.48, 0.55), "go2": (0.23, 0.31)}
"""Heights of the base where the motors hold the default pose against the weight."""


@dataclass(frozen=True)
class Observed:
    """What was seen of two of each robot."""

    joint_names: dict[str, list[str]]
    body_names: dict[str, list[str]]
    positions: dict[str, torch.Tensor]
    """Random joint positions, shape (2, joints)."""
    poses: dict[str, torch.Tensor]
    """Positions of all bodies from the base's at these joint positions, shape (2, bodies, 3) [m]."""
    heights_m: dict[str, torch.Tensor]
    """Of the base after two seconds at the default pose, shape (2,)."""
    deviations: dict[str, torch.Tensor]
    """Of the joints from that pose then, shape (2, joints) [rad] or [m]."""
    forces_n: dict[str, dict[str, torch.Tensor]]
    """Contact forces by body then, shape (2,) each; those that are not zero."""


def environment_config(physics: str) -> Any:
    """Return an environment of two slots, each with all robots on their own piece of ground."""
    import isaaclab.envs.mdp as mdp
    import isaaclab.sim as sim_utils
    from isaaclab.assets import ArticulationCfg, AssetBaseCfg
    from isaaclab.envs import ManagerBasedEnvCfg
    from isaaclab.managers import ObservationGroupCfg, ObservationTermCfg
    from isaaclab.managers import SceneEntityCfg as Entity
    from isaaclab.scene import InteractiveSceneCfg
    from isaaclab.sensors import ContactSensorCfg
    from isaaclab.utils import configclass
    from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
    from isaaclab_ov.physics import OvPhysxCfg

    native = pytest.importorskip("ledger_lab.mujoco_cpu.cfg")
    from ledger_lab.tasks.assets import GROUND_USD
    from ledger_lab.tasks.assets.anymal_c import anymal_c_cfg
    from ledger_lab.tasks.assets.franka import franka_cfg
    from ledger_lab.tasks.assets.go2 import go2_cfg
    from ledger_lab.tasks.assets.humanoid import humanoid_cfg

    def placed(cfg: ArticulationCfg, name: str) -> ArticulationCfg:
        cfg.prim_path = f"{{ENV_REGEX_NS}}/{name}"
        x, _, z = cfg.init_state.pos
        cfg.init_state.pos = (x, SPREAD_M * NAMES.index(name), z)
        return cfg

    def feeling(name: str) -> ContactSensorCfg:
        return ContactSensorCfg(prim_path=f"{{ENV_REGEX_NS}}/{name}/[^/]*")

    def holding(name: str) -> mdp.JointPositionActionCfg:
        return mdp.JointPositionActionCfg(asset_name=name, joint_names=[".*"], use_default_offset=True)

    @configclass
    class SceneCfg(InteractiveSceneCfg):
        ground = AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.UsdFileCfg(usd_path=str(GROUND_USD)))
        anymal_c: ArticulationCfg = placed(anymal_c_cfg(), "anymal_c")
        go2: ArticulationCfg = placed(go2_cfg(), "go2")
        panda: ArticulationCfg = placed(franka_cfg(), "panda")
        stiff_panda: ArticulationCfg = placed(franka_cfg(high_pd=True), "stiff_panda")
        humanoid: ArticulationCfg = placed(humanoid_cfg(), "humanoid")
        anymal_c_contacts: ContactSensorCfg = feeling("anymal_c")
        go2_contacts: ContactSensorCfg = feeling("go2")
        panda_contacts: ContactSensorCfg = feeling("panda")
        stiff_panda_contacts: ContactSensorCfg = feeling("stiff_panda")
        humanoid_contacts: ContactSensorCfg = feeling("humanoid")

    @configclass
    class ActionsCfg:
        anymal_c: mdp.JointPositionActionCfg = holding("anymal_c")
        go2: mdp.JointPositionActionCfg = holding("go2")
        panda: mdp.JointPositionActionCfg = holding("panda")
        stiff_panda: mdp.JointPositionActionCfg = holding("stiff_panda")
        humanoid: mdp.JointPositionActionCfg = holding("humanoid")

    @configclass
    class ObservationsCfg:
        @configclass
        class PolicyCfg(ObservationGroupCfg):
            joints = ObservationTermCfg(func=mdp.joint_pos, params={"asset_cfg": Entity("go2")})

        policy: PolicyCfg = PolicyCfg()

    @configclass
    class EnvironmentCfg(ManagerBasedEnvCfg):
        scene: SceneCfg = SceneCfg(num_envs=2, env_spacing=20.0)
        observations: ObservationsCfg = ObservationsCfg()
        actions: ActionsCfg = ActionsCfg()

        def __post_init__(self) -> None:
            self.decimation, self.seed = 4, 1
            self.sim.dt, self.sim.device = 0.005, "cpu"
            self.sim.physics_material.static_friction = self.sim.physics_material.dynamic_friction = 1.0
            solver = native.MujocoSolverCfg if physics == "newton_mujoco" else MJWarpSolverCfg
            settings = solver(njmax=400, nconmax=150, cone="pyramidal", impratio=10, integrator="implicitfast")
            newton = NewtonCfg(solver_cfg=settings, num_substeps=1, use_cuda_graph=True)
            self.sim.physics = OvPhysxCfg() if physics == "ovphysx" else newton

    return EnvironmentCfg()


def observe(physics: str) -> Observed:
    """Put the robots into random poses, then let them hold their default ones for two seconds."""
    from isaaclab.envs import ManagerBasedEnv

    from ledger_lab.training.runners.cpu_graphs import recorded_physics
    from ledger_lab.training.runners.session import simulation_app

    cfg = environment_config(physics)
    generator = torch.Generator().manual_seed(1)
    with simulation_app(cfg, {"device": "cpu"}):
        env = ManagerBasedEnv(cfg)
        env.reset()
        robots = {name: env.scene[name] for name in NAMES}
        positions = {}
        for name, robot in robots.items():
            low, high = robot.data.joint_pos_limits.torch.unbind(-1)
            chosen = low + (high - low) * torch.rand(low.shape, generator=generator)
            if name == "humanoid":  # the engines compose turns about several axes of a joint differently: turn one
                for slot, others in enumerate(((":1", ":2"), (":0", ":2"))):
                    chosen[slot, [n for n, joint in enumerate(robot.joint_names) if joint.endswith(others)]] = 0.0
            robot.write_joint_position_to_sim_index(position=chosen)
            robot.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(chosen))
            positions[name] = chosen
        env.sim.forward()
        env.scene.update(0.0)
        poses = {
            name: robot.data.body_link_pos_w.torch - robot.data.root_link_pos_w.torch[:, None]
            for name, robot in robots.items()
        }
        env.reset()
        with recorded_physics(SimpleNamespace(unwrapped=env)):  # all that it looks at
            for _ in range(100):
                env.step(torch.zeros(2, env.action_manager.total_action_dim))
        forces = {name: env.scene[f"{name}_contacts"] for name in NAMES}
        observed = Observed(
            joint_names={name: list(robot.joint_names) for name, robot in robots.items()},
            body_names={name: list(robot.body_names) for name, robot in robots.items()},
            positions=positions,
            poses={name: pose.clone() for name, pose in poses.items()},
            heights_m={name: robot.data.root_link_pos_w.torch[:, 2].clone() for name, robot in robots.items()},
            deviations={
                name: (robot.data.joint_pos.torch - robot.data.default_joint_pos.torch).clone()
                for name, robot in robots.items()
            },
            forces_n={
                name: {
                    body: force
                    for body, force in zip(
                        sensor.body_names, sensor.data.net_forces_w.torch.norm(dim=-1).clone().unbind(1), strict=True
                    )
                    if force.any()
                }
                for name, sensor in forces.items()
            },
        )
        env.close()
    return observed


@pytest.fixture(scope="module", params=ENGINES)
def observed(request: pytest.FixtureRequest) -> Observed:
    return observe(request.param)


def test_joints_come_in_isaac_labs_order(observed: Observed) -> None:
    for name, joints in JOINTS.items():
        assert observed.joint_names[name] == joints
    assert len(observed.joint_names["humanoid"]) == 21
    assert observed.joint_names["humanoid"][9:12] == ["left_thigh:0", "left_thigh:1", "left_thigh:2"]


@pytest.mark.parametrize("name", ["anymal_c", "go2", "panda"])
def test_bodies_have_the_described_poses(observed: Observed, name: str) -> None:
    model = pinocchio.buildModelFromUrdf(str(DESCRIPTIONS / name / f"{'anymal' if name == 'anymal_c' else name}.urdf"))
    data = model.createData()
    for slot in range(2):
        q = pinocchio.neutral(model)
        for joint, position in zip(observed.joint_names[name], observed.positions[name][slot], strict=True):
            q[model.joints[model.getJointId(joint)].idx_q] = float(position)
        pinocchio.framesForwardKinematics(model, data, q)
        for body, place in zip(observed.body_names[name], observed.poses[name][slot], strict=True):
            assert np.allclose(place, data.oMf[model.getFrameId(body)].translation, atol=2e-5), body


def test_the_humanoids_bodies_have_the_described_poses(observed: Observed) -> None:
    model = mujoco.MjModel.from_xml_path(str(DESCRIPTIONS / "humanoid/humanoid.xml"))
    hinges = {
        "lower_waist": ("abdomen_z", "abdomen_y"),
        "pelvis": ("abdomen_x",),
        **{f"{s}_thigh": (f"{s}_hip_x", f"{s}_hip_y", f"{s}_hip_z") for s in ("left", "right")},
        **{f"{s}_shin": (f"{s}_knee",) for s in ("left", "right")},
        **{f"{s}_foot": (f"{s}_ankle_y", f"{s}_ankle_x") for s in ("left", "right")},
        **{f"{s}_upper_arm": (f"{s}_shoulder1", f"{s}_shoulder2") for s in ("left", "right")},
        **{f"{s}_lower_arm": (f"{s}_elbow",) for s in ("left", "right")},
    }
    data = mujoco.MjData(model)
    for slot in range(2):
        data.qpos[:] = 0.0
        data.qpos[3] = 1.0
        for joint, position in zip(observed.joint_names["humanoid"], observed.positions["humanoid"][slot], strict=True):
            body, _, axis = joint.partition(":")
            data.joint(hinges[body][int(axis or 0)]).qpos[0] = float(position)
        mujoco.mj_forward(model, data)
        for body, place in zip(observed.body_names["humanoid"], observed.poses["humanoid"][slot], strict=True):
            assert np.allclose(place, data.body(body).xpos, atol=2e-5), body


def test_four_legged_robots_stand_on_their_feet_alone(observed: Observed) -> None:
    for name, (lowest, highest) in STANDING_M.items():
        heights = observed.heights_m[name]
        assert ((heights > lowest) & (heights < highest)).all(), heights
        assert sorted(observed.forces_n[name]) == FEET[name]


def test_the_arm_holds_its_pose_without_touching_anything(observed: Observed) -> None:
    assert (observed.deviations["panda"].abs() < 0.3).all(), "80 N·m/rad sag under its weight"
    assert (observed.deviations["stiff_panda"].abs() < 1e-4).all(), "it has none"
    for name in ("panda", "stiff_panda"):
        assert not observed.forces_n[name]


def test_an_uncontrolled_humanoid_falls(observed: Observed) -> None:
    assert observed.deviations["humanoid"].isfinite().all()
    assert (observed.heights_m["humanoid"] < 1.0).all()
    assert observed.forces_n["humanoid"]
