"""The page in a real browser: it draws, filters, prints, fits a phone, and sends no request."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import Health, Status, read_ledger
from ledger_lab.reports import summarize_cohorts, summarize_run
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.page.document import render_page
from ledger_lab.reports.page.model import build_model
from ledger_lab.reports.selection import Selection, select_in
from tests.fakes.browser import Visit, draw_all, open_browser, show, visit
from tests.fakes.demo import Plan, demo_plans, write_demo, write_plan
from tests.fakes.ledgers import priced, write_run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)><b>bold</b> %{y} &lt; javascript:alert(3)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the demo, in which a run of a cohort is missing."""
    root = tmp_path_factory.mktemp("demo")
    write_demo(root / "logs")
    model = build_model(select_in(read_ledger(root / "logs")), created_at="today")
    cohorts = [
        dataclasses.replace(
            cohort,
            declared_runs=6,
            missing_runs=1,
            usd_per_target_reaching_checkpoint_interval=(0.1, 0.4),
        )
        if cohort.cohort == "skrl-l4"
        else cohort
        for cohort in model.cohorts
    ]
    path = root / "page.html"
    model = dataclasses.replace(model, cohorts=cohorts, absent_cohorts=[("never-began", 4)])
    path.write_text(render_page(model), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def seen(browser: Browser, page_file: Path) -> Visit:
    """The page, drawn once in a window of a desktop."""
    return visit(browser, page_file)


def rows_shown(page: Page) -> list[str]:
    return page.locator("table.costs tbody tr:visible strong").all_inner_texts()


def reset(page: Page) -> None:
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#count")).to_have_text("11 runs")


def test_the_page_draws_without_errors_or_requests(seen: Visit) -> None:
    page = seen.page
    assert seen.complaints == []
    assert seen.requests == []
    for part in ("curves", "cohorts", "phases", "panels", "sides", "telemetry"):
        assert page.locator(f"#{part}-body .plot .main-svg").count() > 0, part
    assert page.locator("#curves-body .scatterlayer .trace path.js-line").count() > 10
    assert page.locator("#phases-body .barlayer path").count() > 50
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_table_shows_the_figures_of_the_ledger(seen: Visit) -> None:
    row = seen.page.locator("tr", has=seen.page.get_by_text("b493d7aa", exact=True)).first
    assert "short of target" in row.inner_text()
    assert "> 10:46" in row.inner_text()
    assert "184/256" in row.inner_text()
    assert "value_loss is NaN at iteration 12" in seen.page.locator("table.costs").first.inner_text()


def test_cohorts_show_missing_runs_and_intervals(seen: Visit) -> None:
    cohort = seen.page.locator("table.cohorts tr", has_text="skrl-l4")
    for text in ("5 of 6", "1 missing", "3 of 5", "[$0.10, $0.40]", "≈ 6:47", "7:27", "up to 10:46"):
        assert text in cohort.inner_text()
    assert "4 missing" in seen.page.locator("table.cohorts tr", has_text="never-began").inner_text()
    body = seen.page.locator("#cohorts-body")
    assert "> 10:46" in body.inner_text()
    assert "Share of runs that reached the target" in body.inner_text()
    assert body.locator(".js-plotly-plot").nth(1).locator(".scatterlayer .trace path.js-line").count() >= 1


def test_health_events_are_drawn_at_their_times(seen: Visit) -> None:
    show(seen.page, "health")
    last = seen.page.locator("#health-body tbody tr").last
    assert [cell.split("\n") for cell in last.locator("td").all_inner_texts()][:3] == [
        ["b593d7aa"],
        ["2:18", "iteration 12"],
        ["▼ non finite", "ended the run"],
    ]
    marks = seen.page.locator("#curves-body .js-plotly-plot").nth(1).locator(".scatterlayer .trace .point")
    assert marks.count() == 3


def test_filters_act_on_table_and_figures(seen: Visit) -> None:
    page = seen.page
    assert len(rows_shown(page)) == 11
    page.locator("#filters [name=cohort]").select_option(label="skrl-l4")
    expect(page.locator("#count")).to_have_text("5 of 11 runs: cohort skrl-l4")
    assert all(name.startswith("b") for name in rows_shown(page))
    draw_all(page)
    assert "LedgerLab-Ant" not in page.locator("#curves-body").inner_text()
    assert page.locator("#phases-body .ytick").count() == 5
    assert "$0.14" in page.locator("#tiles").inner_text()
    page.locator("#filters [name=status]").select_option(label="target reached")
    assert len(rows_shown(page)) == 3
    assert "runs that fell short count, too" in page.locator("#tiles").inner_text()  # no quotient of winners alone
    assert page.locator("#cohorts-body").inner_text().count("> 10:46") == 1
    page.locator("#filters [name=rl_library]").select_option(label="rsl_rl")
    assert rows_shown(page) == []
    assert page.locator("#count").inner_text() == "0 of 11 runs"
    reset(page)
    page.locator("#filters [name=text]").fill("NaN seed 5")
    expect(page.locator("#count")).to_have_text("1 of 11 runs: text nan seed 5")
    assert rows_shown(page) == ["b593d7aa"]
    reset(page)
    page.locator("#filters [name=task]").select_option(label="LedgerLab-Ant")
    assert rows_shown(page) == ["c0ffee42"]
    reset(page)
    assert seen.complaints == []


def test_columns_sort_by_keyboard(seen: Visit) -> None:
    page = seen.page
    header = page.locator("table.costs").first.get_by_role("button", name="to target")
    header.focus()
    page.keyboard.press("Enter")
    up = rows_shown(page)[:10]
    assert header.locator("xpath=..").get_attribute("aria-sort") == "ascending"
    assert up[0] == "a11c4e0f"
    assert up[-2:] == ["b593d7aa", "b493d7aa"]  # those that never got there took longer than any that did
    page.keyboard.press("Enter")
    assert rows_shown(page)[:10] == up[::-1]


def test_two_sides_can_be_compared(seen: Visit) -> None:
    page = seen.page
    show(page, "sides")
    sides = page.locator("#sides-body")
    assert "A: rsl-l40s" in sides.inner_text() and "B: skrl-l4" in sides.inner_text()
    page.locator("#side-b").select_option(label="c0ffee42")
    assert "Not measured by the same yardstick: task is" in sides.inner_text()
    ratio = sides.locator("tr", has_text="cost per target-reaching checkpoint").locator("td").last
    assert ratio.inner_text() == "–"
    page.locator("#side-a").select_option(label="aws-g6e.xlarge (5 runs)")
    page.locator("#side-b").select_option(label="aws-g6.xlarge (5 runs)")
    assert "$1.86/h" in sides.inner_text() and "0.43 ×" in sides.inner_text()


def test_panels_of_several_cells_and_the_seeds_that_fail(seen: Visit) -> None:
    page = seen.page
    show(page, "panels")
    text = page.locator("#panels-body").inner_text()
    assert "tilted_gravity" in text and "Seeds that fail most often" in text
    assert "lasted to the horizon without success" in text
    page.locator("#panel-rows").select_option(label="all of run a11c4e0f · rsl-l40s")
    page.locator("#panel").select_option(index=1)
    rows = page.locator("#panels-body .ytick text").all_text_contents()
    assert rows == [f"model_{iteration}.pt" for iteration in (5, 10, 15, 20, 25)]
    page.locator("#panel-order").select_option("hard")
    assert "the hardest first" in page.locator("#panels-body").inner_text()
    assert seen.complaints == []


@pytest.mark.parametrize("width", [1400, 1280, 1024, 600])
def test_no_column_of_runs_or_cohorts_is_cut(browser: Browser, page_file: Path, width: int) -> None:
    seen = visit(browser, page_file, width, 900)
    tables = "[...document.querySelectorAll('.scroll:has(table.cards)')]"
    assert seen.page.evaluate(f"{tables}.every(each => each.scrollWidth <= each.clientWidth)")
    seen.page.context.close()


def test_a_page_of_one_run_begins_with_its_answer(browser: Browser, tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "a1", scores=(5, 9), proof=9, status=Status.TARGET_REACHED)
    build_report(["page", "--log_root", str(tmp_path / "logs"), str(tmp_path / "page.html")])
    seen = visit(browser, tmp_path / "page.html")
    tiles = [tile.split("\n")[1:] for tile in seen.page.locator("#tiles div").all_inner_texts()]
    assert [tile[0] for tile in tiles] == ["✓ target reached", "90.0 %", "0:09", "–"]
    assert tiles[1][1] == "95 %: 90.0 to 99.9 · 9 of 10"
    assert seen.page.locator("#filters").is_hidden()
    assert seen.complaints == []
    seen.page.context.close()


def test_a_page_of_one_run_that_goes_on_says_so_and_why_it_has_no_cost(browser: Browser, tmp_path: Path) -> None:
    owned = priced(None, market="owned", purchase_usd=1.0, lifetime_years=1.0, utilization=0.5, usd_per_kwh=0.3)
    write_run(tmp_path / "logs", "a1", status=None, pid=os.getpid(), price=owned)
    build_report(["page", "--log_root", str(tmp_path / "logs"), str(tmp_path / "page.html")])
    seen = visit(browser, tmp_path / "page.html")
    tiles = [tile.split("\n")[1:] for tile in seen.page.locator("#tiles div").all_inner_texts()]
    assert tiles[0][0] == "… running" and tiles[-1] == ["–", "energy unknown"]
    seen.page.context.close()


def test_a_narrow_dark_screen_needs_no_sideways_scrolling(browser: Browser, page_file: Path) -> None:
    seen = visit(browser, page_file, 390, 844, is_mobile=True, has_touch=True, color_scheme="dark")
    assert seen.complaints == []
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    wide = seen.page.evaluate(
        "[...document.querySelectorAll('.plot, table.cards, select, figure')].filter(node => node.checkVisibility()"
        " && node.getBoundingClientRect().right > innerWidth + 1).map(node => node.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    seen.page.context.close()


def test_a_printed_page_has_every_row_and_table(seen: Visit) -> None:
    page = seen.page
    page.emulate_media(color_scheme="dark")
    page.locator("#filters [name=cohort]").select_option(label="skrl-l4")
    page.locator("#filters [name=text]").fill("seed")
    expect(page.locator("#count")).to_have_text("5 of 11 runs: cohort skrl-l4 · text seed")
    assert page.locator("#count .paper").is_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#count .paper").is_visible()
    titles = "[...document.querySelectorAll('.costs th')].map(th => getComputedStyle(th, '::before').content)"
    assert page.evaluate(titles)[:3] == ['"run"', '"status"', '"success (95 %)"']
    assert page.locator("th button:visible").count() == 0  # a browser does not repeat them on the next sheet
    assert page.locator("details:not(.long):not([open])").count() == 0
    assert page.locator("#filters select:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("text.ytitle").first.evaluate("node => getComputedStyle(node).fill") == "rgb(68, 75, 85)"
    page.emulate_media(media="screen", color_scheme="light")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert seen.complaints == []
    reset(page)


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    event = Health(event=HOSTILE, iteration=10, wall_ns=90 * 10**9, evidence=HOSTILE, advice=HOSTILE, stops=False)
    names = {"task": HOSTILE, "cohort": HOSTILE, "panel": HOSTILE, "hardware": {"accelerator": HOSTILE}}
    for seed, run_id in enumerate(("__proto__", "constructor", "1e5"), start=1):
        plan = Plan(run_id.replace("/", ""), seed, 15, events=(event,), robust=seed == 1, status=Status.CRASHED)
        write_plan(tmp_path / "logs", dataclasses.replace(plan, reason=HOSTILE, declaration=names))
    build_report(["page", "--log_root", str(tmp_path / "logs"), str(tmp_path / "page.html")])
    seen = visit(browser, tmp_path / "page.html")
    page = seen.page
    assert seen.complaints == []
    assert seen.requests == []
    assert page.locator("main b, main a[href^=javascript], svg a, img").count() == 0
    assert page.locator("h3", has_text=HOSTILE).count() > 0
    ticks = page.locator("#phases-body .ytick").all_text_contents()
    assert [tick.split(" · ")[0] for tick in ticks] == ["__proto__", "constructor", "1e5"]
    page.locator("#filters [name=cohort]").select_option(label=HOSTILE)
    assert len(rows_shown(page)) == 3
    assert HOSTILE in page.locator("#health-body").inner_text()
    assert seen.complaints == []
    page.context.close()


@pytest.mark.thorough
def test_a_thousand_runs_stay_usable(browser: Browser, tmp_path: Path) -> None:
    (plan, *_) = demo_plans()
    write_plan(tmp_path / "logs", dataclasses.replace(plan, telemetry=False))
    ledger = read_ledger(tmp_path / "logs")
    (run,) = ledger.runs
    summary = summarize_run(run)
    named = [{"run_id": f"r{n:04d}", "cohort": f"c{n % 40}"} for n in range(1000)]
    runs = [dataclasses.replace(run, declared=dataclasses.replace(run.declared, **each)) for each in named]
    summaries = [dataclasses.replace(summary, **each) for each in named]
    contents = Contents(runs, summaries, summarize_cohorts(summaries))
    model = build_model(Selection(ledger, (), contents, None), created_at="today")
    path = tmp_path / "page.html"
    path.write_text(render_page(model), encoding="utf-8")
    assert path.stat().st_size < 20_000_000
    seen = visit(browser, path)
    page = seen.page
    assert len(rows_shown(page)) == 30
    assert "The first 30 of 1000 runs" in page.locator(".more").first.inner_text()
    assert "The first 120 of 1000 runs are drawn" in page.locator("#curves-body").inner_text()
    page.locator("#filters [name=text]").fill("r0777")
    expect(page.locator("#count")).to_have_text("1 of 1000 runs: text r0777")
    assert rows_shown(page) == ["r0777"]
    assert seen.complaints == []
    page.context.close()
