"""Checks that ``scripts/play.py`` can show something."""

from __future__ import annotations

import os

from ledger_lab.checkpoints.request import PlayRequest
from ledger_lab.errors import UserError


def require_viewer(request: PlayRequest) -> None:
    """Refuse to play without a viewer or a video.

    Args:
        request: The request.

    Raises:
        UserError: If there is neither a viewer nor a video, or the viewer has no display.
    """
    visualizer = request.launcher.get("visualizer")
    if request.video:
        return
    if not visualizer:
        raise UserError("nothing to see: record with --video, or open a viewer with --viz newton_gl")
    if "newton_gl" in visualizer and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        raise UserError("--viz newton_gl opens a window, and there is no display: add --video, or set DISPLAY")
