"""Recording videos and pictures through one of Isaac Lab's viewers, without a display where the viewer can."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from isaaclab.utils import configclass
from isaaclab.visualizers import VisualizerCfg
from isaaclab_visualizers.newton import NewtonGLVisualizerCfg
from numpy.typing import NDArray
from PIL import Image, ImageOps
from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Panel
from ledger_lab.panels.scoring import score_policies
from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.pipeline.candidate import Candidate
from ledger_lab.pipeline.progress import Progress
from ledger_lab.pipeline.score import Simulation
from ledger_lab.runners.session import environment, held_out_config, is_newton

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg

_FRAMES_PER_S = 30
"""Of a recorded episode: on a CPU, drawing takes much longer than simulating."""
_MOMENTS, _MOMENT_PX, _GAP_PX = 4, 270, 4
"""Of an episode in a picture: how many, the side of each, and what is between two."""


@configclass
class StudioVisualizerCfg(NewtonGLVisualizerCfg):
    """Newton's viewer, that of ``--viz newton_gl``, as LedgerLab opens it.

    What Isaac Lab's Kit viewer knows of cameras that go along with a robot, a task's ``sim.default_visualizer_cfg``
    says here, too.
    """

    class_type: type[Any] | str = "ledger_lab.pipeline.studio:StudioVisualizer"
    window_width: int = 960  # all frames are kept in memory until the episode is over
    window_height: int = 540
    origin_type: str = "world"
    origin_env_index: int = 0
    origin_track_path: str | None = None


def in_studio(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Let an environment be seen in our viewer, where its configuration doesn't say in which.

    Args:
        env_cfg: Resolved configuration, which changes.
    """
    if not env_cfg.sim.visualizer_cfgs:
        env_cfg.sim.visualizer_cfgs = [StudioVisualizerCfg()]


def recording_args(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return launcher flags with the viewer that records: the one asked for, else Newton's, which needs no display.

    Args:
        flags: Isaac Lab's launcher flags.

    Raises:
        UserError: If that viewer can't record.
    """
    viewer = (flags["visualizer"] or ["newton_gl"])[0]
    if viewer in ("rerun", "viser"):
        raise UserError(f"--viz {viewer} cannot record: use --video with --viz newton_gl or kit")
    return {**flags, "visualizer": [viewer]}


@contextmanager
def recorded(env: ManagerBasedRLEnv, path: Path, viewer: str, steps: int, every: int = 1) -> Iterator[None]:
    """Record the steps of an environment within the context; an exception leaves no video.

    Beside the video there is a picture of four moments of the first episode.

    Args:
        env: The environment, as ``gym.make`` returns it.
        path: The file; an older one is replaced. The picture's differs in its suffix, ``.png``.
        viewer: One of Isaac Lab's viewers.
        steps: Most steps to record.
        every: Steps per frame.

    Raises:
        RuntimeError: If no video was written.
    """
    # The movie library looks for a sound card when it is imported, and complains where there is none.
    from isaaclab.envs.utils.video_recorder import VideoRecorder
    from isaaclab.envs.utils.video_recorder_cfg import VideoRecorderCfg

    class Recorder(VideoRecorder):
        def _close_clip(self) -> None:
            if self._frames:
                save_moments(self._frames[: max(1, (base.max_episode_length - 1) // every)], picture_of(path))
            super()._close_clip()

    base = env.unwrapped
    written = path.with_name(f"{path.stem}_0000.mp4")  # Isaac Lab numbers what it writes
    written.unlink(missing_ok=True)
    cfg = VideoRecorderCfg(
        source=f"visualizer:{viewer}",
        output_dir=str(path.parent),
        output_filename_prefix=path.stem,
        video_length=steps,
        frame_stride=every,
    )
    recorder = Recorder(cfg, base)
    base.video_recorders.append(recorder)
    try:
        yield
    finally:
        base.video_recorders.remove(recorder)
    recorder.close()
    if not written.is_file():
        raise RuntimeError(f"no video was written to {path}; --verbose shows what the viewer says")
    written.replace(path)


def picture_of(video: Path) -> Path:
    """Return the file of the picture that belongs to a video."""
    return video.with_suffix(".png")


def save_moments(frames: Sequence[NDArray[np.uint8]], path: Path) -> None:
    """Save moments of a recording side by side, from its first frame to its last, each as the square in its middle.

    Args:
        frames: All frames, shape (height, width, 3) each.
        path: The file; an older one is replaced.
    """
    picture = Image.new("RGB", (_MOMENTS * (_MOMENT_PX + _GAP_PX) - _GAP_PX, _MOMENT_PX), "white")
    for place, index in enumerate(np.linspace(0, len(frames) - 1, _MOMENTS).round().astype(int)):
        moment = ImageOps.fit(Image.fromarray(frames[index]), (_MOMENT_PX, _MOMENT_PX), Image.Resampling.LANCZOS)
        picture.paste(moment, (place * (_MOMENT_PX + _GAP_PX), 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(256).save(path, optimize=True)  # a third of the size, and looks the same


def worst_episodes(outcomes: Sequence[Outcomes], count: int) -> list[tuple[int, int]]:
    """Find the worst of all episodes: failed ones first, then the shortest, then those of the lowest return.

    Args:
        outcomes: What became of the same policy in several simulations.
        count: How many to find.

    Returns:
        Place of the simulation, and of the episode in its outcomes; the worst first.
    """
    ranked = [
        (success, steps, -math.inf if gained is None else gained, place, episode)
        for place, each in enumerate(outcomes)
        for episode, (success, steps, gained) in enumerate(
            zip(each.success, each.steps, each.episode_return, strict=True)
        )
    ]
    return [(place, episode) for *_, place, episode in sorted(ranked)[:count]]


def record_episodes(
    candidate: Candidate,
    simulation: Simulation,
    panel: Panel,
    outcomes: Outcomes,
    episodes: Sequence[int],
    viewer: str,
    console: Console,
) -> None:
    """Replay episodes one by one and record each to a file that is named by its cell and seed.

    Args:
        candidate: The checkpoint.
        simulation: Where it was scored.
        panel: What it was scored on.
        outcomes: Its score.
        episodes: Places of the episodes in the outcomes.
        viewer: One of Isaac Lab's viewers.
        console: Where the progress and the files are shown.
    """
    folder = candidate.run_dir / "videos" / panel.name / _file_name(simulation.name)
    cells = {cell.name: cell for cell in panel.cells}
    with environment(simulation.task, _filmed_config(simulation)) as env:
        every = max(1, round(1 / (env.unwrapped.step_dt * _FRAMES_PER_S)))
        for episode in episodes:
            cell, seed = outcomes.cell[episode], outcomes.seed[episode]
            path = folder / _file_name(f"{candidate.path.stem}_{cell}_{seed}.mp4")
            alone = replace(panel, cells=(cells[cell],), seeds=(seed,))
            with HeldOutSlots(env, alone).attached() as slots:
                slots.reset()
                policy = candidate.adapter.load_policy(candidate.path, env, candidate.agent_cfg)
                title = " · ".join(part for part in ("recording", simulation.name, cell, f"seed {seed}") if part)
                with (
                    Progress(console, title, 1 + outcomes.steps[episode]) as progress,
                    recorded(env, path, viewer, 1 + slots.horizon, every),
                ):
                    steps = itertools.count(1)
                    (score,) = score_policies(slots, [policy], lambda: progress.advance(next(steps)))  # noqa: B023
            again = score.outcomes
            same = again.fingerprint[0] == outcomes.fingerprint[episode]
            console.print(
                f"{'success' if again.success[0] else 'failure'} after {again.steps[0]} steps ({again.ended_by[0]}"
                f"{'' if same else '; not the scored episode bit for bit'}): {path}",
                markup=False,
                soft_wrap=True,
            )


def _filmed_config(simulation: Simulation) -> ManagerBasedRLEnvCfg:
    """Return the configuration of a simulation in which one slot is to be seen."""
    cfg = held_out_config(simulation.env_cfg, 1)
    if not is_newton(cfg):
        cfg.scene.num_envs = 1  # slots stand side by side there, and the camera looks at the origin
    viewer = cfg.sim.default_visualizer_cfg or VisualizerCfg()
    cfg.sim.default_visualizer_cfg = viewer.replace(visible_env_indices=[0])
    in_studio(cfg)
    return cfg


def _file_name(text: str) -> str:
    """Return a text as it can stand in the name of a file."""
    return re.sub(r"[^\w.=+-]+", "_", text)
