"""A real browser for the page: Debian's Chromium, without a display."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """Return where Chromium is; ``None`` where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium; skips the test where there is none."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page that was opened, and whatever went wrong on it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Messages of the console, errors of scripts, dialogs."""
    requests: list[str] = field(default_factory=list)
    """Addresses that were asked for, besides the file itself."""


def visit(browser: Browser, path: Path, width: int = 1300, height: int = 900, **context: object) -> Visit:
    """Open a page, scroll through it so that every figure draws itself, and note what goes wrong."""
    page = browser.new_context(viewport={"width": width, "height": height}, **context).new_page()  # type: ignore[arg-type]
    seen = Visit(page)
    page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (seen.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: seen.requests.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    draw_all(page)
    return seen


def draw_all(page: Page) -> None:
    """Bring every part of the page into sight, and wait for its figures."""
    for part in ("curves", "cohorts", "phases", "panels", "sides", "telemetry", "health"):
        show(page, part)
    page.evaluate("document.body.scrollIntoView()")  # the next Tab starts where a page was scrolled to


def show(page: Page, part: str) -> None:
    """Bring a part of the page into sight, and wait until it is drawn."""
    page.evaluate(f"document.getElementById('{part}-body').scrollIntoView()")
    page.locator(f"#{part}-body:not([aria-busy]) > *").first.wait_for(timeout=90_000)
