"""The application behind the gate: the page, what is new on it, and files of the runs on it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run
from ledger_lab.reports.page.document import LivePage, page_policy
from ledger_lab.reports.page.live import render_live
from ledger_lab.reports.serving.gate import Gate
from ledger_lab.reports.serving.run_files import console_end, open_below, policies, videos

_LOG_BYTES = 1 << 20
"""Size of the tail of a console that is shown [B]."""

_KINDS: dict[str, tuple[Callable[[Run], Iterable[str]], str, str]] = {
    "policies": (policies, "application/octet-stream", "attachment"),
    "videos": (videos, "video/mp4", "inline"),
}
"""Kinds of files: those of a run, their type, and what a browser does with them."""


def make_app(page: Callable[[], LivePage], token: str) -> Gate:
    """Return the application of a server.

    Args:
        page: Returns the page as it is now.
        token: Whoever knows it may read.
    """
    pages = _Pages(page)
    routes = [
        Route("/", pages.whole),
        Route("/live", pages.live),
        Route("/parts", pages.parts),
        Route("/runs/{run_id}/console", pages.console),
        Route("/runs/{run_id}/{kind}/{path:path}", pages.file),
    ]
    return Gate(Starlette(routes=routes), token)


class _Pages:
    """Answers to requests. All of them run in threads, because they may read files."""

    def __init__(self, page: Callable[[], LivePage]) -> None:
        """Answer from a page."""
        self._page = page

    def whole(self, request: Request) -> Response:
        """Return the page."""
        policy = f"{page_policy('served')}; frame-ancestors 'none'"
        return HTMLResponse(self._page().whole, headers={"Content-Security-Policy": policy})

    def live(self, request: Request) -> Response:
        """Return the live part, and the version of the rest."""
        page = self._page()
        found = {"version": page.version, "now": time.time(), "html": render_live(page.live)}
        # In ASCII, because names of files need not be UTF-8.
        return Response(json.dumps(found), media_type="application/json")

    def parts(self, request: Request) -> Response:
        """Return the page without styles and scripts."""
        return HTMLResponse(self._page().parts)

    def console(self, request: Request) -> Response:
        """Return the end of the console of a run."""
        found = console_end(self._run(request), _LOG_BYTES)
        if found is None:
            raise HTTPException(404)
        return PlainTextResponse(found[1])

    def file(self, request: Request) -> Response:
        """Return a saved policy or a video of a run, if it is one of the known ones."""
        run, kind, path = self._run(request), request.path_params["kind"], request.path_params["path"]
        try:
            if kind not in _KINDS or path not in _KINDS[kind][0](run):
                raise HTTPException(404)
            return _OpenFile(open_below(run.directory, path), os.path.basename(path), *_KINDS[kind][1:])
        except (OSError, UserError) as error:  # it was removed, or the run was damaged since
            raise HTTPException(404) from error

    def _run(self, request: Request) -> Run:
        """Return the run that a request names."""
        run = self._page().live.runs.get(request.path_params["run_id"])
        if run is None:
            raise HTTPException(404)
        return run


class _OpenFile(FileResponse):
    """A file that is open already: what is under its name by now does not matter."""

    def __init__(self, descriptor: int, name: str, media_type: str, disposition: str) -> None:
        """Take over a descriptor."""
        self._descriptor = descriptor
        super().__init__(
            f"/proc/self/fd/{descriptor}",
            media_type=media_type,
            filename=name,
            content_disposition_type=disposition,
            stat_result=os.fstat(descriptor),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, or the part of it that a browser asks for, and close it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)
