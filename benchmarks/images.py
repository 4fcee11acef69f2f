"""``python -m benchmarks images``: images in a replay memory: as floats, as bytes, and as bytes that zlib compresses.

The images are films of LedgerLab's tasks, scaled down, and what Isaac Lab's camera sees with Newton's renderer.
"""

from __future__ import annotations

import argparse
import statistics
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from benchmarks.comparison import ROOT, add_json
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.training.runners.threads import in_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FILMS = ("cartpole", "lift-cube-franka", "velocity-rough-anymalc")
"""Films in ``docs/tasks``."""
_CAMERAS = {
    "LedgerLab-Cartpole": ((-5.0, 0.0, 2.0), (0.0, 0.0, 0.0, 1.0)),
    "LedgerLab-Reach-Franka": ((2.0, 0.0, 0.6), (0.0, 0.0, 1.0, 0.0)),
    "LedgerLab-Velocity-Flat-AnymalC": ((-2.5, 0.0, 0.9), (0.0, 0.1, 0.0, 0.995)),
}
"""Positions [m] and directions (quaternions, x, y, z, w) of cameras."""
_LEVEL = 1
"""Fastest level of zlib."""


def bench_images(argv: Sequence[str]) -> int:
    """Store images in each form, and draw random ones.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a size is not positive.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks images",
        description="Measure the size of an image as floats, as bytes and as bytes that zlib compresses one by one, "
        "and the times to compress one and to draw a batch of observations and next observations. The images are films "
        "of tasks, scaled down, and what Isaac Lab's camera sees with Newton's renderer. One thread does all of it.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks images --px 64 --tasks LedgerLab-Cartpole",
    )
    sizes = {
        "px": (84, "Width and height of an image"),
        "images": (200, "Number of images of each kind"),
        "batch": (256, "Transitions per batch"),
        "repeats": (20, "Number of batches to measure"),
    }
    for name, (usual, what) in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=usual, help=f"{what} (default: {usual}).")
    parser.add_argument(
        "--tasks", nargs="*", choices=_CAMERAS, default=[*_CAMERAS], help="Tasks to render (default: all)."
    )
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if min(getattr(args, name) for name in sizes) < 1:
        raise UserError("all sizes must be at least 1")
    measure = in_threads(_measure, 1)
    found = {name: measure(images, args) for name, images in _sources(args)}
    table = Table("", "float bytes", "bytes", "zlib bytes", "compress", "draw: float", "byte", "zlib", box=None)
    for name, figures in found.items():
        held = [f"{figures[f'{form}_bytes']:.0f}" for form in ("float", "byte", "zlib")]
        spent = [f"{figures[f'draw_{form}_ms']:.1f} ms" for form in ("float", "byte", "zlib")]
        table.add_row(name, *held, f"{figures['compress_us']:.0f} µs", *spent)
    make_console().print(table)
    write_findings(
        args.json,
        hardware=hardware_facts(),
        arguments={name: getattr(args, name) for name in (*sizes, "tasks")},
        images=found,
    )
    return 0


def _sources(args: argparse.Namespace) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield images by their origin, of shape (images, px, px, 3)."""
    for name in _FILMS:
        yield f"film of {name}", _film_images(name, args)
    for task in args.tasks:
        yield f"camera in {task}", _camera_images(task, args)


def _film_images(name: str, args: argparse.Namespace) -> NDArray[np.uint8]:
    """Return images of a film, scaled down."""
    import imageio.v3 as iio
    from PIL import Image, ImageOps

    frames = iio.imread(ROOT / "docs" / "tasks" / f"{name}.mp4", plugin="FFMPEG")
    chosen = frames[np.linspace(0, len(frames) - 1, args.images).round().astype(int)]
    return np.stack([np.asarray(ImageOps.fit(Image.fromarray(frame), (args.px, args.px))) for frame in chosen])


def _camera_images(task: str, args: argparse.Namespace) -> NDArray[np.uint8]:
    """Return what a camera sees while random actions are taken."""
    import isaaclab.sim as sim_utils
    import torch
    from isaaclab.sensors import CameraCfg
    from isaaclab_newton.renderers import NewtonWarpRendererCfg

    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.session import environment

    cfg: Any
    cfg, _ = resolve_configs(task, "rsl_rl", ["physics=newton_mujoco"])
    cfg.sim.device, cfg.scene.num_envs = "cpu", 1
    place, direction = _CAMERAS[task]
    cfg.scene.camera = CameraCfg(
        prim_path="{ENV_REGEX_NS}/Camera",
        offset=CameraCfg.OffsetCfg(pos=place, rot=direction, convention="world"),
        data_types=["rgb"],
        spawn=sim_utils.PinholeCameraCfg(clipping_range=(0.1, 20.0)),
        width=args.px,
        height=args.px,
        renderer_cfg=NewtonWarpRendererCfg(),
    )
    torch.manual_seed(0)
    images = []
    with environment(task, cfg) as env, torch.inference_mode():
        env.reset()
        base = env.unwrapped
        for _ in range(args.images):
            env.step(torch.randn(1, base.action_manager.total_action_dim))
            images.append(base.scene["camera"].data.output["rgb"].torch[0, ..., :3].numpy().copy())
    return np.stack(images)


def _measure(images: NDArray[np.uint8], args: argparse.Namespace) -> dict[str, float]:
    """Return mean sizes [B], and median times of compressing an image [µs] and of drawing a batch [ms]."""
    import torch

    rows = torch.from_numpy(images).flatten(1)
    floats, size = rows.float(), rows.shape[1]
    begun = time.perf_counter()
    packed = [zlib.compress(row.numpy(), _LEVEL) for row in rows]
    stored_s = time.perf_counter() - begun

    def unpacked(index: torch.Tensor) -> torch.Tensor:
        """Return images as floats, each unpacked."""
        found = torch.empty(len(index), size, dtype=torch.uint8)
        for place, each in enumerate(index.tolist()):
            found[place] = torch.frombuffer(bytearray(zlib.decompress(packed[each])), dtype=torch.uint8)
        return found.float()

    draws: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "float": lambda index: floats.index_select(0, index),
        "byte": lambda index: rows.index_select(0, index).float(),
        "zlib": unpacked,
    }
    spent: dict[str, list[float]] = {form: [] for form in draws}
    for _ in range(args.repeats):
        index = torch.randint(len(rows), (2 * args.batch,))  # observations and next observations
        for form, draw in draws.items():
            begun = time.perf_counter()
            draw(index)
            spent[form].append(1e3 * (time.perf_counter() - begun))
    return {
        "float_bytes": 4.0 * size,
        "byte_bytes": float(size),
        "zlib_bytes": statistics.mean(map(len, packed)),
        "compress_us": 1e6 * stored_s / len(rows),
        **{f"draw_{form}_ms": statistics.median(times) for form, times in spent.items()},
    }
