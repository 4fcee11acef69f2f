"""Recordings show a checkered ground, and the camera follows the robot; a picture shows four moments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tests.fakes.held_out import task_cfg


def test_the_camera_follows_the_robot_over_a_checkered_ground() -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.checkpoints.film import use_studio_viewer
    from ledger_lab.training.runners.session import environment, simulation_app

    registered_tasks()
    cfg = task_cfg("LedgerLab-Ant")
    cfg.seed, cfg.scene.num_envs = 5, 2
    use_studio_viewer(cfg)
    flags = {"device": "cpu", "visualizer": ["newton_gl"]}
    with simulation_app(cfg, flags), environment("LedgerLab-Ant", cfg) as env:
        env.reset()
        robot, (viewer,) = env.unwrapped.scene["robot"], env.unwrapped.sim.visualizers

        def seen(ahead_m: float) -> tuple[np.ndarray, np.ndarray]:
            """Put the ants ahead, and return a frame and where the camera is then."""
            pose = robot.data.root_link_pose_w.torch.clone()
            pose[:, 0] += ahead_m
            robot.write_root_pose_to_sim_index(root_pose=pose)
            env.step(torch.zeros(2, 8))
            return viewer.render_rgb_array(), np.array(viewer._viewer.camera.pos)

        frame, start = seen(0.0)
        _, leapt = seen(3.0)
        _, walked = seen(0.5)
        origin = robot.data.root_pos_w.torch[0].numpy() - [3.5, 0.0, 0.0]
    assert np.allclose(start, origin + cfg.sim.default_visualizer_cfg.eye, atol=0.1)
    assert np.allclose(leapt - start, [3.0, 0.0, 0.0], atol=0.1)
    assert np.allclose(walked - leapt, [0.05, 0.0, 0.0], atol=0.02), "smoothly"
    assert frame.shape == (540, 960, 3)
    tones = np.bincount(frame[400:, :, 1].flatten(), minlength=256) / frame[400:, :, 1].size
    assert (tones[60:160].reshape(-1, 10).sum(axis=1) > 0.1).sum() >= 2, "light and dark fields"


def test_a_picture_has_moments_from_the_first_frame_to_the_last(tmp_path: Path) -> None:
    from tools.moments import save_moments

    frames = [np.full((54, 96, 3), 10 * number, np.uint8) for number in range(10)]
    for frame in frames:
        frame[:, :10] = 255  # what a square in the middle leaves out
    (tmp_path / "new").mkdir()
    save_moments(frames, tmp_path / "new" / "picture.png")
    with Image.open(tmp_path / "new" / "picture.png") as picture:
        colors = np.asarray(picture.convert("RGB"))
    assert colors.shape == (270, 4 * 270 + 3 * 4, 3)
    for place, number in enumerate((0, 3, 6, 9)):
        assert (colors[:, place * 274 : place * 274 + 270] == 10 * number).all()
    save_moments(frames[:1], tmp_path / "new" / "picture.png")
