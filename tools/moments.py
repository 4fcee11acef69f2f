"""Writes a picture of four moments of a video, from its first frame to its last, each cropped to its central square.

The README shows such pictures: ``./isaaclab.sh -p -m tools.moments docs/tasks/ant.mp4`` writes ``docs/tasks/ant.png``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import imageio.v3
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

_MOMENTS, _MOMENT_PX, _GAP_PX = 4, 270, 4
"""Number of moments, their side length and the gap between them [pixels]."""


def save_moments(frames: Sequence[NDArray[np.uint8]], path: Path) -> None:
    """Save moments of a recording side by side.

    Args:
        frames: All frames, shape (height, width, 3) each.
        path: The file; its folder exists.
    """
    picture = Image.new("RGB", (_MOMENTS * (_MOMENT_PX + _GAP_PX) - _GAP_PX, _MOMENT_PX), "white")
    for place, index in enumerate(np.linspace(0, len(frames) - 1, _MOMENTS).round().astype(int)):
        moment = ImageOps.fit(Image.fromarray(frames[index]), (_MOMENT_PX, _MOMENT_PX), Image.Resampling.LANCZOS)
        picture.paste(moment, (place * (_MOMENT_PX + _GAP_PX), 0))
    picture.quantize(256).save(path, optimize=True)  # a third of the size, and looks the same


if __name__ == "__main__":
    video = Path(sys.argv[1])
    save_moments([*imageio.v3.imiter(video)], video.with_suffix(".png"))
