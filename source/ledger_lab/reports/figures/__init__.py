"""Figures as SVG and PNG files, and what all of them share. What they show belongs to the wing ``studies``."""

from ledger_lab.reports.figures.drawing import Drawing, can_draw, save_drawings

__all__ = ["Drawing", "can_draw", "save_drawings"]
