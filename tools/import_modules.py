"""Imports what trainings, videos and reports import, so that Python keeps the compiled modules beside their sources."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

REPORTS = ("ledger_lab.cli.report", "ledger_lab.reports.page", "duckdb", "jinja2", "scipy.stats")
SIMULATION = (
    "isaaclab.envs.manager_based_rl_env",
    "isaaclab.envs.utils.video_recorder",
    "isaaclab_newton.physics.mjwarp_manager",
    "mujoco_warp",
    "newton.sensors",
    "newton.solvers",
    "newton.usd",
    "ledger_lab.training.checkpoints.export",
    "ledger_lab.training.checkpoints.play",
    "ledger_lab.training.evaluation.run",
    "ledger_lab.training.run",
    "rl_games.torch_runner",
    "rsl_rl.runners",
    "skrl.agents.torch.ppo",
    "torch._dynamo",
)
"""What an environment without Isaac Lab, for reports alone, does not have."""

for name in (*REPORTS, *(SIMULATION if find_spec("isaaclab") else ())):
    importlib.import_module(name)
