"""The gate before the page: only requests that read, from this computer's own browser, with the token."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTER: Final = "/enter"
"""Path that takes the token, and gives a cookie and the path of the page."""

_COOKIE: Final = "ledger_lab"

_HOSTS = ("127.0.0.1", "localhost")
"""Names under which a browser reaches loopback, also through a tunnel. A site of a stranger may point its own name at
127.0.0.1, but its browser then sends that name."""

_OWN_SITES = ("same-origin", "none")
"""Values of ``Sec-Fetch-Site`` of requests that the page itself, or the user, has made. Other servers on this computer
count as ``same-site``."""

_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of all answers."""

_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content security policy of answers that set none."""

_SCRIPT = f"""
const say = (text) => {{ document.getElementById("said").textContent = text; }};
async function enter() {{
  const token = location.hash.slice(1);
  if (!token) return say("This page needs its token: open the whole address that serve.py printed.");
  const answer = await fetch("{ENTER}", {{ headers: {{ Authorization: `Bearer ${{token}}` }} }}).catch(() => null);
  if (answer === null) say("The server gave no answer.");
  else if (answer.ok) location.replace(await answer.text());
  else say("This is not the token of this server: open the address that serve.py printed last.");
}}
addEventListener("hashchange", enter); // another token was written into the address
enter();
"""
_ENTRANCE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>LedgerLab</title></head>
<body><p id="said" role="status">One moment …</p><noscript>This page needs JavaScript.</noscript>
<script>{_SCRIPT}</script></body></html>
"""
_SCRIPT_SHA256 = b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_ENTRANCE_POLICY = f"{_NOTHING}; connect-src 'self'; script-src 'sha256-{_SCRIPT_SHA256}'"


class Gate:
    """Lets through what may pass, and adds headers to all answers."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Guard an application.

        Args:
            app: The application.
            token: The token.
        """
        self._app, self._token = app, token.encode()
        # A browser sends a cookie to all ports of a computer, but only below its path. A path that no other server
        # knows keeps the token from them, and the cookies of two servers apart.
        self._home = f"/{hashlib.sha256(self._token).hexdigest()[:32]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return  # no web sockets
        refused = self._refuse(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers.update(_HEADERS)
                headers.setdefault("Content-Security-Policy", _NOTHING)
                message["headers"] = headers.raw
            await send(message)

        await (refused or self._app)({**scope, "root_path": self._home}, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the answer to a request that may not pass; ``None`` if it may."""
        headers = Headers(scope=scope)
        is_page = scope["path"].endswith("/")  # of this server, or of one that had this port before
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this server only reads\n", 405, {"Allow": "GET, HEAD"})
        if _host_name(headers.get("host", "")) not in _HOSTS:
            return PlainTextResponse("this server answers at 127.0.0.1 and localhost only\n", 421)
        if headers.get("sec-fetch-site", "none") not in _OWN_SITES and not is_page:
            return PlainTextResponse("another site has asked\n", 403)
        if scope["path"] == ENTER:
            return self._enter(headers)
        if self._knows(headers):
            return None
        if is_page:
            return HTMLResponse(_ENTRANCE, 401, {"Content-Security-Policy": _ENTRANCE_POLICY})
        return PlainTextResponse("the token is missing\n", 401)

    def _enter(self, headers: Headers) -> Response:
        """Give the cookie to whoever has the token."""
        if not self._is_token(_bearer(headers)):
            return PlainTextResponse("this is not the token\n", 401)
        response = PlainTextResponse(f"{self._home}/")
        response.set_cookie(_COOKIE, self._token.decode(), httponly=True, samesite="strict", path=self._home)
        return response

    def _knows(self, headers: Headers) -> bool:
        """Tell whether a request has the token."""
        cookie = cookie_parser(headers.get("cookie", "")).get(_COOKIE, "")
        return self._is_token(_bearer(headers)) or self._is_token(cookie)

    def _is_token(self, text: str) -> bool:
        """Compare in a time that does not tell how much is right."""
        return hmac.compare_digest(text.encode(), self._token)


def _bearer(headers: Headers) -> str:
    """Return the token in the header ``Authorization``; empty if there is none."""
    kind, _, text = headers.get("authorization", "").partition(" ")
    return text if kind == "Bearer" else ""


def _host_name(host: str) -> str:
    """Return the name in a header ``Host``, without the port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()
