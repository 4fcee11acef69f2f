"""``scripts/play.py``: watch a checkpoint, or record it."""

from __future__ import annotations

import itertools
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from ledger_lab.checkpoints.candidate import require_unchanged, resolve_candidate
from ledger_lab.checkpoints.film import in_studio, picture_of, recorded, recording_args
from ledger_lab.checkpoints.find import FoundCheckpoint, best_checkpoint
from ledger_lab.checkpoints.request import play_parser
from ledger_lab.checkpoints.shipped import named_checkpoint, tell_shipped
from ledger_lab.checkpoints.viewer import require_viewer
from ledger_lab.errors import UserError
from ledger_lab.files import unused_path
from ledger_lab.runners.command_line import launcher_args, parse
from ledger_lab.runners.configs import resolve_configs
from ledger_lab.runners.session import environment, require_runtime, resolve_device, simulation_app
from ledger_lab.tasks.registry import require_task
from ledger_lab.terminal.console import Terminal
from ledger_lab.terminal.progress import Progress


def play_run(argv: Sequence[str]) -> int:
    """Play a checkpoint.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If the request can't be carried out.
    """
    args, overrides = parse(play_parser(), argv)
    if args.pretrained and "=" in (args.checkpoint or ""):  # an override, that stands where a run would
        overrides, args.checkpoint = [args.checkpoint, *overrides], None
    if args.num_envs < 1 or args.video_length < 1:
        raise UserError("--num_envs and --video_length must be at least 1")
    if not 0 <= args.seed < 2**32:
        raise UserError(f"--seed {args.seed}: must lie between 0 and {2**32 - 1}")
    if changed := [override for override in overrides if override.startswith("agent.")]:
        raise UserError(
            f"override {changed[0]!r}: a policy is played as it was trained; env.PATH=VALUE changes its world"
        )
    require_viewer(args)
    terminal = Terminal(quiet_libraries=not (args.verbose or args.info))
    try:
        _play(args, overrides, best_checkpoint(named_checkpoint(args), args.log_root), terminal)
    except KeyboardInterrupt:
        if args.video:
            raise
    finally:
        terminal.restore()
    return 0


def _play(args: Namespace, overrides: list[str], found: FoundCheckpoint, terminal: Terminal) -> None:
    """Step the policy until the video is done, or for as long as the user looks."""
    declared = found.run.declared
    device = resolve_device(args.device)
    require_task(declared.task, declared.rl_library, declared.agent)
    candidate = resolve_candidate(found, device, args.log_root)
    require_unchanged(candidate.path, candidate.saved, candidate.run_id)
    env_cfg, _ = resolve_configs(
        declared.task, declared.rl_library, [*declared.overrides, *overrides], declared.agent, play_mode=True
    )
    env_cfg.sim.device, env_cfg.seed, env_cfg.scene.num_envs = device, args.seed, args.num_envs
    flags = launcher_args(args, device)
    if args.video:
        flags = recording_args(flags)
    require_runtime(env_cfg, flags)
    in_studio(env_cfg)
    video = unused_path(candidate.run_dir / "videos" / "play" / f"{candidate.path.stem}.mp4") if args.video else None
    console = terminal.console
    console.print(
        f"playing {found.saved.path} of run {declared.run_id}, after {found.saved.iteration} iterations", markup=False
    )
    tell_shipped(candidate.source, console)
    with simulation_app(env_cfg, flags), environment(declared.task, env_cfg) as env, torch.inference_mode():
        observations, _ = env.reset()
        policy = candidate.adapter.load_policy(candidate.path, env, candidate.agent_cfg)
        if video is None:
            console.print("press Ctrl+C to stop")
        with (
            Progress(console, "recording" if video else "playing", args.video_length if video else None) as progress,
            recorded(env, video, flags["visualizer"][0], args.video_length) if video else nullcontext(),
        ):
            for step in itertools.count(1):
                if video is None and not env.unwrapped.sim.is_running():
                    break
                began_s = time.monotonic()
                observations, *_ = env.step(policy(observations))
                progress.advance(step)
                if video is not None and step == args.video_length:
                    break
                if video is None:
                    time.sleep(max(0.0, env.unwrapped.step_dt - (time.monotonic() - began_s)))
    if video is not None:
        console.print(f"video: {video}", style="green", markup=False, soft_wrap=True)
        console.print(f"picture: {picture_of(video)}", style="green", markup=False, soft_wrap=True)
