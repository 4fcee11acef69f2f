"""``scripts/play.py``: shows the policy of a checkpoint, or records a video of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import torch

from ledger_lab.files import unused_path
from ledger_lab.panels.policy import Acting
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.training.checkpoints.candidate import open_candidate
from ledger_lab.training.checkpoints.film import recorded, recording_args, use_studio_viewer
from ledger_lab.training.checkpoints.request import PlayRequest
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.physics_engine import changed_overrides
from ledger_lab.training.runners.session import environment, require_runtime, resolve_device, simulation_app


def play_run(argv: Sequence[str]) -> int:
    """Play a checkpoint.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If the request can't be carried out.
    """
    request = PlayRequest.parse(argv)
    terminal = Terminal(quiet_libraries=request.quiet_libraries)
    try:
        _play(request, terminal)
    except KeyboardInterrupt:
        if request.video or request.action_range:
            raise
    finally:
        terminal.restore()
    return 0


def _play(request: PlayRequest, terminal: Terminal) -> None:
    """Step the policy until all that was asked for is known, or until the user closes the viewer."""
    device = resolve_device(request.device)
    candidate, _ = open_candidate(request, device)
    declared, saved = candidate.run.declared, candidate.saved
    overrides = changed_overrides(declared.overrides, request.overrides)
    env_cfg, _ = resolve_configs(declared.task, declared.rl_library, overrides, declared.agent, play_mode=True)
    env_cfg.sim.device, env_cfg.seed, env_cfg.scene.num_envs = device, request.seed, request.num_envs
    flags = request.launcher_args(device)
    if request.video:
        flags = recording_args(flags)
    require_runtime(env_cfg, flags, request.cpu_threads)
    use_studio_viewer(env_cfg)
    video = unused_path(candidate.folder("videos", "play") / f"{candidate.path.stem}.mp4") if request.video else None
    console = terminal.console
    console.print(f"playing {saved.path} of run {declared.run_id}, after {saved.iteration} iterations", markup=False)
    candidate.print_notes(console)
    with (
        simulation_app(env_cfg, flags),
        environment(declared.task, env_cfg, spread=True) as env,
        torch.inference_mode(),
    ):
        observations, _ = env.reset()
        policy = Acting(candidate.adapter.load_policy(candidate.path, env, candidate.agent_cfg))
        taken: list[torch.Tensor] = []
        last = request.video_length if request.video or request.action_range else None
        if last is None:
            console.print("press Ctrl+C to stop")
        with (
            Progress(console, "recording" if video else "playing", last) as progress,
            recorded(env, video, candidate.run_dir, flags["visualizer"][0], request.video_length)
            if video
            else nullcontext(),
        ):
            for step in itertools.count(1):
                if last is None and not env.unwrapped.sim.is_running():
                    break
                began_s = time.monotonic()
                actions = policy(observations)
                if request.action_range:
                    taken.append(actions.abs().float().cpu())
                observations, _, terminated, truncated, _ = env.step(actions)
                policy.forget(terminated | truncated)
                progress.advance(step)
                if step == last:
                    break
                if last is None:
                    time.sleep(max(0.0, env.unwrapped.step_dt - (time.monotonic() - began_s)))
    if taken:
        sizes = torch.cat(taken).numpy()
        most, nearly_all, largest = np.percentile(sizes, (99, 99.9, 100))
        console.print(
            f"of the absolute values of all {sizes.size} actions, 99 % are at most {most:.2f}, 99.9 % at most "
            f"{nearly_all:.2f}, and the largest is {largest:.2f}",
            markup=False,
            soft_wrap=True,
        )
    if video is not None:
        console.print(f"video: {video}", style="green", markup=False, soft_wrap=True)
