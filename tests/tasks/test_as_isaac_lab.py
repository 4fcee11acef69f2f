"""Where tasks differ from Isaac Lab's of the same names is listed here, to the last weight."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import pytest

MANAGERS = ("observations", "actions", "commands", "rewards", "terminations", "events", "curriculum")
UNTOLD = ("debug_vis", "visualizer_cfg", "preserve_order")
"""What changes nothing that is learned."""

LOCOMOTION = {"+rewards.survival", "-rewards.success_rate"}  # of no weight
THIGHS = {
    f"{gears}..*_thigh:{axis}"  # two axes in one line
    for gears in (
        "actions.joint_effort.clip",
        "actions.joint_effort.scale",
        "rewards.energy.params.gear_ratio",
        "rewards.joint_pos_limits.params.gear_ratio",
    )
    for axis in ("0", "2", "[02]")
}
VELOCITY = {
    "commands.base_velocity.class_type",
    "commands.base_velocity.averaging_s",
    "-events.base_external_force_torque",  # of no force
    "-events.physics_material",  # one friction for all
    "+rewards.fallen",
    "-rewards.dof_pos_limits",  # of no weight
    "+terminations.tipped_over",
}
ANYMAL = VELOCITY | {
    "rewards.feet_air_time.params.sensor_cfg.body_names",  # all by their names
    "rewards.track_ang_vel_z_exp.weight",
    "rewards.track_lin_vel_xy_exp.weight",
    "rewards.undesired_contacts.params.sensor_cfg.body_names",
}
FOLLOWING = {
    "+rewards.progress",
    "rewards.track_ang_vel_z_exp.params.std",
    "rewards.track_lin_vel_xy_exp.params.std",
    "+rewards.turning",
}
DIFFERENCES = {
    ("LedgerLab-Ant", "Isaac-Ant"): LOCOMOTION,
    ("LedgerLab-Humanoid", "Isaac-Humanoid"): LOCOMOTION | THIGHS | {"rewards.progress.weight"},
    ("LedgerLab-Velocity-Flat-AnymalC", "IsaacContrib-Velocity-Flat-AnymalC"): ANYMAL | FOLLOWING,
    ("LedgerLab-Velocity-Rough-AnymalC", "IsaacContrib-Velocity-Rough-AnymalC"): ANYMAL
    | FOLLOWING
    | {
        "commands.base_velocity.resampling_time_range",
        "+curriculum.frontier_patches",
        "episode_length_s",
        "-curriculum.terrain_levels",  # on all levels from the start
        *(f"observations.policy.height_scan.{said}" for said in ("noise.n_max", "noise.n_min", "scale")),
        "-rewards.flat_orientation_l2",  # of no weight
        "+rewards.keeping",
        "+terminations.off_the_terrain",
    },
    ("LedgerLab-Velocity-Flat-Go2", "Isaac-Velocity-Flat-UnitreeGo2"): VELOCITY
    | FOLLOWING
    | {
        "+observations.policy.gait_phase",
        "rewards.base_height_l2.params.target_height",
        "-rewards.feet_air_time",
        "+rewards.in_step",
    },
    ("LedgerLab-Reach-Franka", "Isaac-Reach-Franka"): {
        *(f"actions.arm_action.{said}" for said in ("class_type", "scale", "use_default_offset", "use_zero_offset")),
        "sim.dt",
        "decimation",
        "episode_length_s",
        "commands.ee_pose.position_success_threshold",
        "commands.ee_pose.ranges.yaw",
        "commands.ee_pose.resampling_time_range",
        "-curriculum.action_rate",
        "-curriculum.joint_vel",
        "+events.reset_all",
        "-events.reset_robot_fingers",  # all joints at once
        "+observations.policy.ee_target_error",
        "-rewards.action_magnitude",
        "rewards.action_rate.weight",
        "rewards.end_effector_orientation_tracking.weight",
        "rewards.end_effector_position_tracking.weight",
        "+rewards.end_effector_position_tracking_fine_grained",
        "rewards.joint_vel.weight",
        *(f"rewards.success.{said}" for said in ("func", "params.command_name", "params.term_keys", "weight")),
        "-terminations.success",
    },
}
"""What a task of ours has besides (+), lacks (-) and sets otherwise than Isaac Lab's."""


@pytest.mark.parametrize(("ours", "theirs"), DIFFERENCES)
def test_nothing_else_differs_from_isaac_labs_task(ours: str, theirs: str) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    cfgs = [resolve_configs(task, "rsl_rl", [])[0] for task in (ours, theirs)]
    mine, stock = map(terms, cfgs)
    found = {f"+{term}" for term in mine.keys() - stock.keys()} | {f"-{term}" for term in stock.keys() - mine.keys()}
    for term in mine.keys() & stock.keys():
        leaves = mine[term].keys() | stock[term].keys()
        found |= {f"{term}.{leaf}" for leaf in leaves if mine[term].get(leaf) != stock[term].get(leaf)}
    for clock in ("episode_length_s", "decimation", "sim.dt"):
        found |= {clock} if len({attrgetter(clock)(cfg) for cfg in cfgs}) > 1 else set()
    assert found == DIFFERENCES[ours, theirs]
    seen = [[term for term in task if term.startswith("observations.")] for task in (mine, stock)]
    assert [term for term in seen[0] if term in seen[1]] == [term for term in seen[1] if term in seen[0]]


def terms(env_cfg: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of each term of a task by their place in it."""
    found = {}
    for manager in MANAGERS:
        for name, term in below(getattr(env_cfg, manager)).items():
            inner = below(term).items() if manager == "observations" else [("", term)]
            for each, settings in inner:
                if hasattr(settings, "func") or hasattr(settings, "class_type"):
                    found[".".join(filter(None, (manager, name, each)))] = flat(settings)
    return found


def below(node: Any) -> Mapping[str, Any]:
    """Return what lies below a node of a configuration, but for what is not set."""
    items = node if isinstance(node, Mapping) else vars(node) if hasattr(type(node), "__dataclass_fields__") else {}
    return {str(key): child for key, child in items.items() if child is not None and key not in UNTOLD}


def flat(node: Any, place: str = "") -> dict[str, Any]:
    """Return the leaves of a configuration, functions by their names."""
    if children := below(node):
        return {k: v for key, child in children.items() for k, v in flat(child, f"{place}.{key}".strip(".")).items()}
    if isinstance(node, list | tuple):
        node = [getattr(each, "__name__", each) for each in node]
        node = node[0] if len(node) == 1 else node
    return {place: str(getattr(node, "__name__", node))}
