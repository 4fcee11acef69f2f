"""Replayed physics steps equal launched physics steps."""

from __future__ import annotations

import pytest
import torch


def trajectory(overrides: list[str], recorded: bool, newtons_motors: bool = False) -> tuple[torch.Tensor, int]:
    """Return observations of 80 steps under random forces that push carts into their limits, and graph launches.

    Args:
        overrides: Overrides of the configuration.
        recorded: Whether physics steps are recorded.
        newtons_motors: Whether Newton computes the motors. It then takes all physics steps of a step in one call.
    """
    import warp
    from isaaclab.actuators import IdealPDActuatorCfg

    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.session import environment, recorded_physics, simulation_app

    registered_tasks()
    env_cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", overrides)
    env_cfg.sim.device, env_cfg.seed, env_cfg.scene.num_envs = "cpu", 5, 16
    env_cfg.terminations.cart_out_of_bounds.params["bounds"] = (-1e6, 1e6)
    if newtons_motors:
        env_cfg.scene.robot.actuators["cart"] = IdealPDActuatorCfg(
            joint_names_expr=["slider_to_cart"], stiffness=0.0, damping=10.0, actuator_effort_limit=400.0
        )
    launches = 0
    launch = warp.capture_launch

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal launches
        launches += 1
        return launch(*args, **kwargs)

    warp.capture_launch = counted
    try:
        with simulation_app(env_cfg, {"device": "cpu"}), environment("LedgerLab-Cartpole", env_cfg) as env:
            env.reset()
            generator = torch.Generator().manual_seed(1)
            states = []
            with recorded_physics(env) if recorded else torch.no_grad():
                for _ in range(80):
                    bias = torch.linspace(-3.0, 3.0, 16).unsqueeze(1)
                    observations, *_ = env.step(bias + torch.randn(16, 1, generator=generator))
                    states.append(observations["policy"].clone())
    finally:
        warp.capture_launch = launch
    return torch.stack(states), launches


@pytest.mark.parametrize(
    ("physics", "newtons_motors"), [("newton_mjwarp", False), ("newton_mujoco", False), ("newton_mujoco", True)]
)
def test_replayed_steps_equal_launched_ones_bit_for_bit_at_joint_limits(physics: str, newtons_motors: bool) -> None:
    launched, none = trajectory([f"physics={physics}"], recorded=False, newtons_motors=newtons_motors)
    replayed, launches = trajectory([f"physics={physics}"], recorded=True, newtons_motors=newtons_motors)
    assert none == 0 and launches == 80 * (1 if newtons_motors else 2) - 1
    assert launched[..., 0].abs().max() > 3.9, "some carts reach the end of the rail, where constraints act"
    assert torch.equal(launched, replayed)
