"""The ledger as one self-contained HTML page."""

from ledger_lab.reports.page.document import render_page, write_page
from ledger_lab.reports.page.model import PageModel, build_model

__all__ = ["PageModel", "build_model", "render_page", "write_page"]
