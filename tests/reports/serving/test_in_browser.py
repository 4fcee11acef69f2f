"""The page that lives, in a real browser, while trainings write rows: served, and as a file that is written again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Locator, Page, expect

from ledger_lab.ledger import Status
from tests.fakes.browser import open_browser
from tests.fakes.live import LiveTraining
from tests.fakes.serving import ROOT, Server, serving
from tests.fakes.waiting import wait_until

HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)><a href='javascript:alert(3)'>x</a>"
_SOON_MS = 60_000
"""Time that an update may take on a busy computer [ms]."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


def opened(browser: Browser, address: str) -> tuple[Page, list[str]]:
    """Open a page; what goes wrong on it is noted."""
    page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    complaints[:] = [each for each in complaints if "401" not in each]  # before the token was given
    return page, complaints


def row(page: Page, name: str) -> Locator:
    return page.locator("table.now tr", has=page.get_by_text(name, exact=True)).first


def calmly(page: Page, script: str) -> object:
    """Run a script on a page that may be loaded again at any moment."""
    for _ in range(9):
        try:
            return page.evaluate(script)
        except Error:
            page.wait_for_selector("html[data-ready]")
    return page.evaluate(script)


def top_of(page: Page, part: str) -> float:
    top = calmly(page, f"document.getElementById('{part}').getBoundingClientRect().top")
    assert isinstance(top, float | int)
    return top


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a ledger with one run, which does nothing."""
    root = tmp_path_factory.mktemp("served")
    with LiveTraining(root, "zz", task="Other"), serving(root) as served:
        yield served


def test_a_served_page_shows_how_runs_appear_go_on_hang_vanish_and_end(browser: Browser, server: Server) -> None:
    root = server.log_root
    with (
        LiveTraining(root, "aa", cohort="c") as first,
        LiveTraining(root, "cc", seed=3, supervised=True, ago=timedelta(minutes=40)) as hung,
    ):
        first.iterate(3)
        first.say("".join(f"line {number}\n" for number in range(60)))
        hung.beat()
        page, complaints = opened(browser, server.address)
        other, _ = opened(browser, server.address)
        assert server.token not in page.url
        expect(row(page, "aa")).to_contain_text("iteration 3/100", timeout=_SOON_MS)
        expect(row(page, "cc")).to_contain_text("hung", timeout=_SOON_MS)
        expect(page.locator(".notices")).to_contain_text("hung: run cc", timeout=_SOON_MS)
        page.locator("details[data-key='log aa'] summary").click()
        page.evaluate("document.getElementById('phases').scrollIntoView()")
        page.locator("#phases-body details summary").click()
        page.locator("#filters [name=cohort]").select_option(label="c")
        page.evaluate("document.activeElement.blur()")
        page.evaluate("window.kept = true; document.getElementById('phases').scrollIntoView()")
        top = top_of(page, "phases")
        first.iterate(2)
        first.save(9)
        first.say("a new line\n")
        first.event("KL too large")
        assert not page.locator("#scaling").is_visible(), "all runs have the same size"
        LiveTraining(root, "bb", alive=False, seed=2, num_envs=20).close()
        expect(row(page, "aa")).to_contain_text("iteration 5/100", timeout=_SOON_MS)
        expect(row(page, "bb")).to_contain_text("lost", timeout=_SOON_MS)
        expect(page.locator("#count")).to_contain_text("1 of 4 runs", timeout=_SOON_MS)
        expect(page.locator("details[data-key='log aa'] pre")).to_contain_text("a new line")
        expect(page.locator("#scaling img").first).to_be_visible(timeout=_SOON_MS)
        assert page.locator("details[data-key='log aa']").get_attribute("open") is not None
        assert page.locator("#phases-body details").first.get_attribute("open") is not None
        assert abs(top_of(page, "phases") - top) < 3
        assert page.evaluate("window.kept"), "the page was not loaded again"
        expect(page.locator("section.yardstick tr", has_text="aa").first).to_contain_text("9/10", timeout=_SOON_MS)
        expect(row(other, "bb")).to_contain_text("lost", timeout=_SOON_MS)
        with page.expect_download() as download:
            page.evaluate("scrollTo(0, 0)")
            row(page, "aa").locator("xpath=following-sibling::tr[1]").get_by_text("policy model_5.pt").click(
                modifiers=["Alt"]
            )
        assert Path(download.value.path()).read_bytes() == b"weights"
        first.end(Status.TARGET_REACHED)
        expect(row(page, "aa")).to_have_count(0, timeout=_SOON_MS)
        assert complaints == []
        page.context.close()
        other.context.close()


def test_hostile_names_and_logs_stay_text_when_they_arrive(browser: Browser, server: Server) -> None:
    page, complaints = opened(browser, server.address)
    folder = HOSTILE.replace("/", "∕")
    with LiveTraining(server.log_root, "hh", folder=folder, task=HOSTILE, cohort=HOSTILE) as hostile:
        hostile.iterate()
        hostile.save()
        hostile.event(HOSTILE)
        hostile.say(f"{HOSTILE}\n\x1b]0;title\x07")
        expect(row(page, "hh")).to_contain_text(HOSTILE, timeout=_SOON_MS)
        expect(page.locator("section.yardstick h3", has_text=HOSTILE)).to_have_count(1, timeout=_SOON_MS)
        page.locator("details[data-key='log hh'] summary").click()
        expect(page.locator("details[data-key='log hh'] pre")).to_contain_text(HOSTILE)
        smuggled = "main img:not([src^='data:image/svg+xml;base64,']), main a[href^=javascript], main script"
        assert page.locator(smuggled).count() == 0
        assert complaints == []
    page.context.close()


def test_without_the_token_the_page_says_what_to_open(browser: Browser, server: Server) -> None:
    page = browser.new_page()
    for fragment, words in (("", "open the whole address"), ("#wrong", "not the token")):
        page.goto("about:blank")
        page.goto(f"http://localhost:{server.port}/{fragment}")
        expect(page.locator("#said")).to_contain_text(words)
        assert "zz" not in page.content()
    page.close()


def test_the_page_tells_when_its_server_has_ended(browser: Browser, server: Server) -> None:
    page, _ = opened(browser, server.address)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait() == 130
    expect(page.locator("#age.warn")).to_contain_text("the server has ended", timeout=_SOON_MS)
    page.context.close()


@pytest.mark.thorough  # tests/cli/test_follow_page.py writes such files; pages of a server look for news, too
def test_a_file_is_loaded_again_by_itself_and_tells_when_its_writer_has_ended(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    report = [sys.executable, str(ROOT / "scripts" / "report.py"), "page", "--log_root", str(tmp_path / "logs")]
    with LiveTraining(tmp_path / "logs", "aa", cohort="c") as first:
        first.iterate(3)
        first.say("hello\n")
        writer = subprocess.Popen(
            [*report, str(file), "--follow", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None and writer.stderr is not None
        try:
            assert writer.stdout.readline() == f"wrote {file}; it follows the ledger until Ctrl-C\n"
            page, complaints = opened(browser, file.as_uri())
            calmly(page, "document.getElementById('phases').scrollIntoView()")
            page.locator("#phases-body details").wait_for()
            top = calmly(
                page,
                """{
                    const by = (selector) => document.querySelector(selector);
                    by("details[data-key='log aa']").open = by("#phases-body details").open = true;
                    by("#theme").click();
                    by("#phases input[value=seconds]").click();
                    by("#phases-body details").open = true;
                    by("#filters [name=cohort]").value = "0";
                    by("#filters [name=cohort]").dispatchEvent(new Event("change"));
                    by("#phases").scrollIntoView();
                    by("#phases").getBoundingClientRect().top;
                }""",
            )
            assert isinstance(top, float | int)
            first.iterate(4)
            LiveTraining(tmp_path / "logs", "bb", seed=2, alive=False).close()
            expect(row(page, "aa")).to_contain_text("iteration 7/100", timeout=_SOON_MS)
            expect(page.locator("#count")).to_contain_text("1 of 2 runs: cohort c", timeout=_SOON_MS)
            expect(page.locator("details[data-key='log aa']")).to_have_attribute("open", "")
            expect(page.locator("#phases input[value=seconds]")).to_be_checked()
            expect(page.locator("html")).to_have_attribute("data-theme", "light")
            expect(page.locator("#phases-body details[open]")).to_have_count(1)
            wait_until(
                lambda: abs(top_of(page, "phases") - top) < 60,
                f"the page is scrolled back to {top}",
                limit_s=60,
                shown=lambda: f"it is at {top_of(page, 'phases')}",
            )
            assert complaints == []
            writer.send_signal(signal.SIGINT)
            assert writer.wait(timeout=60) == 130
            assert (writer.stdout.read(), writer.stderr.read()) == ("", "")
        finally:
            writer.kill()
            writer.wait()
    expect(page.locator("#age.warn")).to_contain_text("has ended: nothing new follows", timeout=_SOON_MS)
    page.context.close()
