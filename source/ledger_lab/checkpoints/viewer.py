"""What ``scripts/play.py`` needs to show anything."""

from __future__ import annotations

import os
from argparse import Namespace

from ledger_lab.errors import UserError


def require_viewer(args: Namespace) -> None:
    """Refuse to play where nobody could see it.

    Args:
        args: Parsed command line of ``scripts/play.py``.

    Raises:
        UserError: If there is neither a viewer nor a video, or the viewer has no display.
    """
    if args.video:
        return
    if not args.visualizer:
        raise UserError("nothing to see: record with --video, or open a viewer with --viz newton_gl")
    if "newton_gl" in args.visualizer and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        raise UserError("--viz newton_gl opens a window, and there is no display: add --video, or set DISPLAY")
