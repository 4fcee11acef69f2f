"""A page that lives, as it is at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ledger_lab.ledger import Run
from ledger_lab.reports.page.document import Mode, PageFrame, render_frame
from ledger_lab.reports.page.live import LivePart
from ledger_lab.reports.page.model import PageModel


@dataclass(frozen=True)
class PageContent:
    """Everything on a page but its live part. It is rendered when it is asked for, and then kept."""

    model: PageModel
    mode: Mode
    version: int
    """Another content of the same page has another version."""

    @cached_property
    def frame(self) -> PageFrame:
        """The page around its live part."""
        return render_frame(self.model, self.mode, self.version)

    @cached_property
    def parts(self) -> bytes:
        """The page without live part, styles and scripts, as a server sends it to a browser that has these already."""
        frame = render_frame(self.model, self.mode, self.version, bare=True)
        return f"{frame.before}{frame.after}".encode(errors="replace")


@dataclass(frozen=True)
class PageState:
    """A page at one time."""

    content: PageContent
    live: LivePart
    runs: Mapping[str, Run]
    """The runs on the page, by id."""

    @property
    def document(self) -> str:
        """The whole page."""
        return self.content.frame.with_live(self.live)

    @cached_property
    def encoded(self) -> bytes:
        """The whole page, as a server sends it."""
        return self.document.encode(errors="replace")
