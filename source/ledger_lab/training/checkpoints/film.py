"""Recording of videos through a viewer of Isaac Lab, without a display if the viewer allows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab.utils import configclass
from isaaclab_visualizers.newton import NewtonGLVisualizerCfg

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.training.runners.lean_imports import import_video_recorder

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg


@configclass
class StudioVisualizerCfg(NewtonGLVisualizerCfg):
    """LedgerLab's settings of Newton's viewer (``--viz newton_gl``).

    A camera that follows a robot is taken from the task's ``sim.default_visualizer_cfg``, as in Isaac Lab's Kit viewer.
    """

    class_type: type[Any] | str = "ledger_lab.training.checkpoints.studio:StudioVisualizer"
    window_width: int = 960  # all frames are kept in memory until the episode is over
    window_height: int = 540
    origin_type: str = "world"
    origin_env_index: int = 0
    origin_track_path: str | None = None


def use_studio_viewer(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Use LedgerLab's viewer for an environment, unless its configuration names another viewer.

    Args:
        env_cfg: Resolved configuration; it is changed.
    """
    if not env_cfg.sim.visualizer_cfgs:
        env_cfg.sim.visualizer_cfgs = [StudioVisualizerCfg()]


def recording_args(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return launcher flags with the viewer that records: the requested viewer, or Newton's, which needs no display.

    Args:
        flags: Isaac Lab's launcher flags.

    Raises:
        UserError: If this viewer cannot record.
    """
    viewer = (flags["visualizer"] or ["newton_gl"])[0]
    if viewer in ("rerun", "viser"):
        raise UserError(f"--viz {viewer} cannot record: use --video with --viz newton_gl or kit")
    return {**flags, "visualizer": [viewer]}


@contextmanager
def recorded(
    env: ManagerBasedRLEnv, path: Path, run_dir: Path, viewer: str, steps: int, every: int = 1
) -> Iterator[None]:
    """Record the steps of an environment inside the context; after an exception, there is no video.

    Args:
        env: The environment, as ``gym.make`` returns it.
        path: The video file; an older file is replaced.
        run_dir: The run's directory, which holds the file. No link below it is followed.
        viewer: One of Isaac Lab's viewers.
        steps: Largest number of steps to record.
        every: Steps per frame.

    Raises:
        RuntimeError: If no video was written.
        UserError: If there is a link between the run's directory and the file.
    """
    from isaaclab.envs.utils.video_recorder_cfg import VideoRecorderCfg

    base = env.unwrapped
    with whole_file(path, root=run_dir) as video:
        cfg = VideoRecorderCfg(
            source=f"visualizer:{viewer}",
            output_dir=str(video.parent),
            output_filename_prefix=path.stem,
            video_length=steps,
            frame_stride=every,
        )
        recorder = import_video_recorder().VideoRecorder(cfg, base)
        base.video_recorders.append(recorder)
        try:
            yield
        finally:
            base.video_recorders.remove(recorder)
        recorder.close()
        written = video.with_name(f"{path.stem}_0000.mp4")  # Isaac Lab adds a number to the file name
        if not written.is_file():
            raise RuntimeError(f"no video was written to {path}; --verbose shows what the viewer says")
        written.replace(video)
