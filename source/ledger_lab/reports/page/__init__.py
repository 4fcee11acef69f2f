"""The ledger as one self-contained HTML page."""

from ledger_lab.reports.page.document import LivePage, Mode, page_policy, render_page, save_page
from ledger_lab.reports.page.live import Address, LivePart, render_live, run_links
from ledger_lab.reports.page.model import PageModel, build_model

__all__ = [
    "Address",
    "LivePage",
    "LivePart",
    "Mode",
    "PageModel",
    "build_model",
    "page_policy",
    "render_live",
    "render_page",
    "run_links",
    "save_page",
]
