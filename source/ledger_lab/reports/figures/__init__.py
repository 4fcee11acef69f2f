"""Figures of scaling studies, as SVG and PNG files and on the page."""

from ledger_lab.reports.figures.drawing import Drawing, can_draw
from ledger_lab.reports.figures.files import save_drawings
from ledger_lab.reports.figures.ledger import draw_ledger
from ledger_lab.reports.figures.studies import DrawingGroup, draw_published, draw_studies

__all__ = ["Drawing", "DrawingGroup", "can_draw", "draw_ledger", "draw_published", "draw_studies", "save_drawings"]
