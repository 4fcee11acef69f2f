"""A robot and its image do what the mirror shows, and the image's samples are what it would have met."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from ledger_lab.errors import UserError
from ledger_lab.ledger import RunDeclared
from ledger_lab.tasks import symmetry
from tests.fakes.held_out import thorough
from tests.fakes.plans import planned
from tests.fakes.robots import simulated

ENVS = 8
COMMAND = (0.5, 0.3, 0.2)
AGENT = "rsl_rl_cfg_entry_point"


def mirrors_of(task: str) -> tuple[symmetry.Mirror, ...]:
    """Return the planes in which samples of a task are seen."""
    if "Humanoid" in task:
        from ledger_lab.tasks.humanoid.symmetry import LEFT_RIGHT

        return (LEFT_RIGHT,)
    from ledger_lab.tasks.velocity.symmetry import ANYMAL_C, GO2

    return GO2 if "Go2" in task else ANYMAL_C


def configured(task: str, entry_point: str = "env_cfg_entry_point") -> Any:
    """Return a task's configuration."""
    from isaaclab_tasks.utils import load_cfg_from_registry

    from ledger_lab.tasks.registry import registered_tasks

    registered_tasks()
    return load_cfg_from_registry(task, entry_point)


def images_of(task: str) -> Callable[..., Any]:
    """Return what adds images to the samples of the agent that learns from them."""
    learns = configured(task, AGENT).algorithm.symmetry_cfg
    assert learns.use_data_augmentation
    augment: Callable[..., Any] = learns.data_augmentation_func
    return augment


def placed_as_images(env: Any, mirrors: tuple[symmetry.Mirror, ...]) -> int:
    """Bring the first robots into the states of the very first one's images, and return how many these are."""
    base, robot = env.unwrapped, env.unwrapped.scene["robot"]
    data, names = robot.data, tuple(robot.joint_names)
    pose, velocity = data.root_link_pose_w.torch[:1].clone(), data.root_com_vel_w.torch[:1].clone()
    joints, rates = data.joint_pos.torch[:1].clone(), data.joint_vel.torch[:1].clone()
    pose[:, :2] = torch.tensor([0.1, 0.2])  # from its environment's origin
    for mirror in mirrors:
        vector, spin = torch.tensor(mirror.vector), torch.tensor(mirror.spin)
        whole = torch.cat([vector, spin, torch.ones(1)])  # a rotation's axis is one to turn about
        source, sign = symmetry.joints(mirror, names)
        pose, velocity = torch.cat([pose, pose * whole]), torch.cat([velocity, velocity * whole[:6]])
        joints = torch.cat([joints, joints[:, source] * torch.tensor(sign)])
        rates = torch.cat([rates, rates[:, source] * torch.tensor(sign)])
    ids = torch.arange(len(pose))
    pose[:, :2] += base.scene.env_origins[ids, :2]
    base.scene.reset(ids)
    base.action_manager.reset(ids)
    robot.write_root_pose_to_sim_index(root_pose=pose, env_ids=ids)
    robot.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=ids)
    robot.write_joint_position_to_sim_index(position=joints, env_ids=ids)
    robot.write_joint_velocity_to_sim_index(velocity=rates, env_ids=ids)
    return len(ids)


def commanded(env: Any, mirrors: tuple[symmetry.Mirror, ...]) -> None:
    """Command the first robot, and its images as they would see it, for good."""
    if "base_velocity" not in env.unwrapped.command_manager.active_terms:
        return
    command, told = env.unwrapped.command_manager.get_term("base_velocity"), torch.tensor([COMMAND])
    for mirror in mirrors:
        told = torch.cat([told, told * torch.tensor(symmetry.planar_velocities(mirror, ())[1])])
    command.vel_command_b[: len(told)] = told
    command.is_heading_env[:] = False


@pytest.mark.parametrize(
    ("task", "tolerances"),
    [
        ("LedgerLab-Humanoid", (0.001,)),
        thorough("LedgerLab-Velocity-Flat-Go2", (0.001,)),
        ("LedgerLab-Velocity-Flat-AnymalC", (0.02, 0.3)),  # its trunk is lopsided, and its back not quite its front
    ],
)
def test_mirrored_samples_equal_samples_of_the_mirrored_world(task: str, tolerances: tuple[float, ...]) -> None:
    same = [f"env.events.{name}=null" for name in ("add_base_mass", "base_com", "push_robot") if "Velocity" in task]
    with simulated(task, "newton_mjwarp", ENVS, *same) as env, torch.inference_mode():
        images, mirrors = images_of(task), mirrors_of(task)
        generator = torch.Generator().manual_seed(1)
        env.reset()
        for _ in range(10):
            env.step(2.0 * torch.rand(env.action_space.shape, generator=generator) - 1.0)
        count = placed_as_images(env, mirrors)
        _, acted = images(env, actions=2.0 * torch.rand((1, env.action_space.shape[1]), generator=generator) - 1.0)
        actions = torch.zeros(env.action_space.shape)
        actions[:count] = acted
        if "Go2" in task:
            env.unwrapped.episode_length_buf[1] += 12  # the other pair of feet has its turn
        for _ in range(2):
            commanded(env, mirrors)
            seen = env.step(actions)[0]["policy"][:count]
        told, _ = images(env, obs=TensorDict({"policy": seen[:1]}, batch_size=[1]))
        scale = seen.abs().max(dim=0).values.clamp(min=0.1)
        assert told.batch_size == torch.Size([count]) == torch.Size([2 ** len(mirrors)])
        errors = ((told["policy"] - seen).abs() / scale).max(dim=1).values
        for image, error in enumerate(errors.tolist()):
            used = [tolerance for bit, tolerance in enumerate(tolerances) if image >> bit & 1]
            assert error <= max(used, default=0.0), f"image {image}"
        assert ((told["policy"][1] - seen[0]).abs() / scale).max() > 0.5, "an image differs from what it shows"


@pytest.mark.parametrize(
    ("task", "sensor", "term"),
    [
        ("LedgerLab-Velocity-Rough-AnymalC", "height_scanner", "height_scan"),
        ("LedgerLab-Navigation-Flat-AnymalC", "lidar", "nearness"),
    ],
)
def test_the_image_of_a_scan_is_the_scan_of_the_image(task: str, sensor: str, term: str) -> None:
    from ledger_lab.tasks.navigation import symmetry as navigation
    from ledger_lab.tasks.velocity import symmetry as velocity

    pattern = getattr(configured(task).scene, sensor).pattern_cfg
    starts, directions = pattern.func(pattern, "cpu")
    rays = starts + directions * torch.tensor([1.0, 1.0, 0.0])
    assert len(rays.unique(dim=0)) == len(rays)
    for mirror in velocity.ANYMAL_C:
        source, sign = {**velocity.TERMS, **navigation.TERMS}[term](mirror, ())
        assert torch.allclose(rays[source], rays * torch.tensor(mirror.vector), atol=1e-5) and set(sign) == {1.0}


def test_isaac_labs_images_of_anymal_are_ours() -> None:
    from isaaclab_tasks.core.velocity.mdp.symmetry import anymal

    from ledger_lab.tasks.velocity import symmetry as velocity

    joints = [f"{leg}_{joint}" for joint in ("HAA", "HFE", "KFE") for leg in ("LF", "LH", "RF", "RH")]
    terms = [term for term in velocity.TERMS if term not in ("height_scan", "gait_phase")]
    base = SimpleNamespace(
        observation_manager=SimpleNamespace(
            active_terms={"policy": terms},
            group_obs_term_dim={"policy": [(12,) if term.startswith(("joint", "act")) else (3,) for term in terms]},
        ),
        scene={"robot": SimpleNamespace(joint_names=joints)},
        cfg=configured("LedgerLab-Velocity-Flat-AnymalC"),
    )
    env = SimpleNamespace(unwrapped=base, cfg=base.cfg)
    rows = {"obs": TensorDict({"policy": torch.randn(5, 48)}, batch_size=[5]), "actions": torch.randn(5, 12)}
    for ours, theirs in zip(velocity.anymal_c(env, **rows), anymal.compute_symmetric_states(env, **rows), strict=True):
        assert ours is not None
        assert torch.equal(*(each["policy"] if isinstance(each, TensorDict) else each for each in (ours, theirs)))


def test_what_was_first_mirrored_in_a_rollout_carries_gradients() -> None:
    from ledger_lab.tasks.velocity import symmetry as velocity

    scene = {"robot": SimpleNamespace(joint_names=["FL_hip_joint", "FR_hip_joint"])}
    env: Any = SimpleNamespace(unwrapped=SimpleNamespace(observation_manager=None, scene=scene))
    actions = torch.ones(1, 2)
    with torch.inference_mode():
        velocity.go2(env, actions=actions)
    _, images = velocity.go2(env, actions=actions.requires_grad_())
    assert images is not None
    images.square().sum().backward()
    assert actions.grad is not None and actions.grad.tolist() == [[4.0, 4.0]]


def test_an_observation_without_a_mirror_image_is_refused_in_one_line() -> None:
    from ledger_lab.tasks.velocity import symmetry as velocity

    def refused(terms: list[str], widths: list[int]) -> str:
        manager = SimpleNamespace(
            active_terms={"policy": terms}, group_obs_term_dim={"policy": [(width,) for width in widths]}
        )
        base = SimpleNamespace(observation_manager=manager, scene={"robot": SimpleNamespace(joint_names=[])})
        rows = TensorDict({"policy": torch.zeros(2, sum(widths))}, batch_size=[2])
        with pytest.raises(UserError, match="train without mirrored samples, --no_symmetry") as found:
            velocity.go2(SimpleNamespace(unwrapped=base), obs=rows)  # type: ignore[arg-type]
        return str(found.value)

    assert refused(["base_lin_vel", "smell"], [3, 1]).startswith("observation 'smell' has no known mirror image")
    assert refused(["height_scan"], [187]).startswith("observation 'height_scan' has 187 numbers, and its image 54")


def test_only_rsl_rl_learns_from_mirrored_samples_unless_the_user_says_no(tmp_path: Path) -> None:
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.description import hash_configs

    go2, off, null = "LedgerLab-Velocity-Flat-Go2", "--no_symmetry", "agent.algorithm.symmetry_cfg=null"
    for task, arguments, learns, added in (
        (go2, [], True, []),
        (go2, [off], False, [null]),
        (go2, ["--rl_library", "skrl"], False, []),
        (go2, ["--rl_library", "rl_games", off], False, []),
        ("LedgerLab-Cartpole", [off], False, []),
    ):
        plan = planned("--task", task, "--device", "cpu", *arguments, log_root=tmp_path)
        assert (plan.declared.symmetry, plan.declared.agent) == (learns, None)
        assert plan.declared.overrides == ["physics=newton_mujoco", *added]
        if plan.adapter.library == "rsl_rl":
            assert (plan.agent_cfg.algorithm.symmetry_cfg is not None) is learns
        env_cfg, agent_cfg = resolve_configs(task, plan.adapter.library, plan.declared.overrides)
        agent_cfg = plan.adapter.prepare(agent_cfg, "cpu")
        assert hash_configs(env_cfg, agent_cfg, plan.adapter)["agent"] == plan.declared.config_sha256["agent"]


def test_settings_of_mirrored_samples_contradict_their_absence(tmp_path: Path) -> None:
    override = "agent.algorithm.symmetry_cfg.use_mirror_loss=true"
    with pytest.raises(UserError, match=f"override {override}: --no_symmetry .* leave one of them out"):
        planned("--task", "LedgerLab-Velocity-Flat-Go2", "--no_symmetry", override, log_root=tmp_path)


def test_runs_that_declared_an_agent_with_symmetry_are_read_as_runs_of_today(tmp_path: Path) -> None:
    declared = planned("--task", "LedgerLab-Velocity-Flat-Go2", "--device", "cpu", log_root=tmp_path).declared
    agent = "rsl_rl_with_symmetry_cfg_entry_point"
    older = {name: value for name, value in declared.to_data().items() if name != "symmetry"} | {"agent": agent}
    assert RunDeclared.from_data(older) == declared
    theirs = RunDeclared.from_data(older | {"task": "Isaac-Velocity-Flat-Anymal-C"})
    assert (theirs.agent, theirs.symmetry) == (agent, None), "Isaac Lab's tasks still have an agent of this name"


@pytest.mark.parametrize(
    "task",
    [
        "LedgerLab-Velocity-Rough-AnymalC",
        "LedgerLab-Velocity-Flat-Go2",
        "LedgerLab-Navigation-Flat-AnymalC",
        "LedgerLab-Humanoid",
    ],
)
def test_each_agent_with_symmetry_knows_every_term_that_its_policy_sees(task: str) -> None:
    augment = images_of(task)
    terms = importlib.import_module(augment.__module__).TERMS
    policy = configured(task).observations.policy
    assert {name for name, term in vars(policy).items() if hasattr(term, "func")} <= set(terms)
