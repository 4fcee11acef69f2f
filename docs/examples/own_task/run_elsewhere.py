"""Runs the exported policy without Isaac Lab, torch or LedgerLab: on a pendulum of ten lines, with NumPy and ONNX.

Usage: python run_elsewhere.py FOLDER, where FOLDER has the policy.onnx and contract.json of export_policy.py.
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnx.reference import ReferenceEvaluator

folder = Path(sys.argv[1])
contract = json.loads((folder / "contract.json").read_text())
policy = ReferenceEvaluator(str(folder / "policy.onnx"))

(action,) = contract["actions"]
_, joint_vel = contract["observations"][0]["terms"]
(damping,) = contract["articulations"]["pendulum"]["joint_damping"]
lowest, highest = action["clip"][0]
period_s, steps = contract["rates"]["physics_period_s"], contract["rates"]["physics_steps_per_action"]

GRAVITY_TORQUE = 1.0 * 9.81 * 0.5
"""Torque that holds the rod horizontally [N·m]."""
INERTIA = 0.0835 + 1.0 * 0.5**2
"""Of the rod about the hinge [kg·m²]."""

angle = np.linspace(-np.pi, np.pi, 64, endpoint=False)  # 64 pendulums; 0 is upright
velocity = np.zeros_like(angle)
for _ in range(round(5.0 * contract["rates"]["control_hz"])):
    observation = np.stack([np.sin(angle), np.cos(angle), velocity * joint_vel["scale"]], axis=1)
    (actions,) = policy.run(None, {contract["files"]["input"]["name"]: observation.astype(np.float32)})
    torque = np.clip(action["offset"] + action["scale"] * actions[:, 0], lowest, highest)
    for _ in range(steps):
        velocity += period_s * (torque + GRAVITY_TORQUE * np.sin(angle) - damping * velocity) / INERTIA
        angle += period_s * velocity

upright = int((np.cos(angle) >= np.cos(0.2)).sum())
print(f"{upright} of {len(angle)} pendulums stand upright after 5 s")
