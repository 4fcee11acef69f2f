"""The ledger as one self-contained HTML page."""

from ledger_lab.reports.page.document import (
    PageFrame,
    page_policy,
    render_frame,
    render_live,
    render_page,
    save_page,
    write_page,
)
from ledger_lab.reports.page.live import LivePart
from ledger_lab.reports.page.model import PageMemory, PageModel, build_model

__all__ = [
    "LivePart",
    "PageFrame",
    "PageMemory",
    "PageModel",
    "build_model",
    "page_policy",
    "render_frame",
    "render_live",
    "render_page",
    "save_page",
    "write_page",
]
