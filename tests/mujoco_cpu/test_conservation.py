"""Momenta and energies of a flight with MuJoCo's C code are those of MuJoCo-Warp."""

from __future__ import annotations

from typing import Any

import torch

from tests.fakes.held_out import WARP
from tests.mujoco_cpu.test_native import ants

NATIVE = "physics=newton_mujoco"
COUNT, STEPS = 4, 20


def thrown(env: Any) -> None:
    """Throw the ants from a height, with random poses and velocities that depend on nothing else."""
    generator = torch.Generator().manual_seed(3)

    def random(*shape: int) -> torch.Tensor:
        return 2 * torch.rand(COUNT, *shape, generator=generator) - 1

    robot = env.scene["robot"]
    pose = torch.cat([torch.tensor([0.0, 0.0, 100.0]).expand(COUNT, 3), torch.nn.functional.normalize(random(4))], 1)
    robot.write_root_pose_to_sim_index(root_pose=pose)
    robot.write_root_velocity_to_sim_index(root_velocity=3 * random(6))
    joints = robot.data.joint_pos.torch
    limits = robot.data.joint_pos_limits.torch
    robot.write_joint_position_to_sim_index(position=limits.mean(dim=-1) + 0.1 * random(joints.shape[1]))
    robot.write_joint_velocity_to_sim_index(velocity=random(joints.shape[1]))


def state_of(env: Any) -> dict[str, torch.Tensor]:
    """Return sums over the bodies of each ant, from what Newton and Isaac Lab tell of them.

    Returns:
        ``mass`` [kg] of shape (ants, 1); ``momentum`` [N s], and ``spin``, the angular momentum about the center of
        mass [N m s], of shape (ants, 3); ``energy`` of the motion [J], of shape (ants, 1).
    """
    from isaaclab.utils.math import matrix_from_quat

    data = env.scene["robot"].data
    mass, place, speed, turn = (
        values.torch.double()
        for values in (data.body_mass, data.body_com_pos_w, data.body_com_lin_vel_w, data.body_com_ang_vel_w)
    )
    mass = mass.unsqueeze(-1)
    turned = matrix_from_quat(data.body_link_quat_w.torch.double())
    inertia = turned @ data.body_inertia.torch.double().unflatten(-1, (3, 3)) @ turned.mT
    of_turns = (inertia @ turn.unsqueeze(-1)).squeeze(-1)
    total = mass.sum(dim=1)
    arm = place - (mass * place).sum(dim=1, keepdim=True) / total.unsqueeze(1)
    return {
        "mass": total,
        "momentum": (mass * speed).sum(dim=1),
        "spin": (torch.linalg.cross(arm, mass * speed) + of_turns).sum(dim=1),
        "energy": (mass * speed * speed + turn * of_turns).sum(dim=(1, 2)).unsqueeze(1) / 2,
    }


def flight(engine: str) -> tuple[list[dict[str, torch.Tensor]], torch.Tensor]:
    """Return the sums in each step of a flight, and the change of velocity by gravity in a step [m/s]."""
    with ants(COUNT, engine) as env:
        thrown(env)
        found = []
        for _ in range(STEPS):
            env.step(torch.zeros(COUNT, 8))
            found.append(state_of(env))
        return found, env.step_dt * torch.tensor([0.0, 0.0, -9.81], dtype=torch.double)


def test_ants_in_flight_keep_their_momenta_and_have_the_energies_of_mujoco_warp() -> None:
    flights = {engine: flight(engine) for engine in (NATIVE, WARP)}
    for found, fall in flights.values():
        first, last = found[0], found[-1]
        expected = first["momentum"] + (STEPS - 1) * first["mass"] * fall
        assert (last["momentum"] - expected).norm(dim=1).max() < 0.005 * first["momentum"].norm(dim=1).min()
        assert ((last["spin"] - first["spin"]).norm(dim=1) < 0.01 * first["spin"].norm(dim=1)).all()
    for name in ("momentum", "spin", "energy"):
        native, warp = (torch.stack([each[name] for each in found]) for found, _ in flights.values())
        assert torch.allclose(native, warp, rtol=1e-3, atol=1e-3), name
