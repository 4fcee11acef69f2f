"""Success of the cart-pole of the direct workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from isaaclab_tasks.core.cartpole.cartpole_direct_env import CartpoleEnv


def pole_upright(env: CartpoleEnv, tolerance_rad: float) -> torch.Tensor:
    """Tell in which environments the pole is upright now.

    A pole that has made a whole turn does not count, because the angle of its joint then is 2π, not 0.

    Args:
        env: The environment.
        tolerance_rad: Largest allowed angle from the vertical [rad].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    cartpole = env.scene["cartpole"]
    pole = cartpole.joint_names.index(env.cfg.pole_dof_name)
    upright: torch.Tensor = cartpole.data.joint_pos.torch[:, pole].abs() <= tolerance_rad
    return upright
