"""Newton's viewer with LedgerLab's settings for recordings: a checkered ground, and a camera that follows a robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import newton
import torch
from isaaclab_visualizers.newton.newton_visualizer import NewtonGLVisualizer

if TYPE_CHECKING:
    from ledger_lab.training.checkpoints.film import StudioVisualizerCfg

_GROUND_RGB = (0.35, 0.37, 0.40)
_EXPOSURE = 0.8
"""Exposure of the renderer. At Newton's own exposure, white robots lose their shape."""
_FOLLOWED = 0.1
"""Share of the distance to the robot that the camera moves per frame, so that it does not sway with the gait."""
_JUMP_M = 1.0
"""Distance above which the camera jumps to the robot, because a new episode has begun elsewhere [m]."""


class StudioVisualizer(NewtonGLVisualizer):
    """Draws the ground as a checkerboard of 1 m squares, and moves the camera with the followed object."""

    cfg: StudioVisualizerCfg
    _followed: torch.Tensor | None = None
    """Smoothed position of the followed object; shape (3,) [m]."""

    def _apply_model_visualization_options(self) -> None:
        """Paint the ground whenever a model is loaded."""
        super()._apply_model_visualization_options()
        self._viewer.renderer.exposure = _EXPOSURE
        model = self.backend.model
        colors = model.shape_color.numpy()
        for index, (name, kind) in enumerate(zip(model.shape_label, model.shape_type.numpy(), strict=True)):
            drawn = self._viewer._shape_to_batch[index]
            if drawn is None or not (name.startswith("/World/ground") or kind == newton.GeoType.HFIELD):
                continue
            colors[index] = _GROUND_RGB
            materials = drawn.materials.numpy()
            materials[:, 2] = 1.0  # roughness, metallic, checkers, texture
            drawn.materials.assign(materials)
        model.shape_color.assign(colors)

    def _pre_step(self) -> None:
        """Move the camera before a frame; the user can turn and move it as well."""
        super()._pre_step()
        origin = self._origin()
        seen = torch.zeros(3) if self._followed is None else self._followed
        ahead = origin - seen
        if self._followed is not None and ahead.norm() < _JUMP_M:
            ahead = _FOLLOWED * ahead
        self._followed = seen + ahead
        camera = self._viewer.camera
        camera.pos = type(camera.pos)(*(old + step for old, step in zip(camera.pos, ahead.tolist(), strict=True)))

    def _origin(self) -> torch.Tensor:
        """Return the origin of the camera's eye and target, as in Isaac Lab's Kit viewer; shape (3,) [m]."""
        scene, index = self._scene_data_provider.get_interactive_scene(), self.cfg.origin_env_index
        if self.cfg.origin_type == "env":
            return scene.env_origins[index].cpu()
        if self.cfg.origin_type == "asset" and self.cfg.origin_track_path is not None:
            name, _, body = self.cfg.origin_track_path.partition("/")
            data = scene[name].data
            if not body:
                return data.root_pos_w.torch[index].cpu()
            return data.body_pos_w.torch[index, scene[name].body_names.index(body)].cpu()
        return torch.zeros(3)
