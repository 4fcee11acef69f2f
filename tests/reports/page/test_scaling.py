"""The page's scaling figures are painted once, and again when a run of their target changes."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from ledger_lab.ledger import Run, read_ledger
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.reports.page import scaling
from ledger_lab.reports.page.scaling import ScalingKeeper
from tests.fakes.scaled import write_scaled


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Run], list[RunSummary]]:
    """Two tasks, each trained with one and with two processes."""
    root = tmp_path_factory.mktemp("logs")
    for task in "AB":
        for processes in (1, 2):
            write_scaled(root, f"{task}{processes}", processes, 64, rate=1000.0, iterations=5, task=task)
    runs = read_ledger(root).runs
    return runs, [summarize_run(run) for run in runs]


def test_only_what_has_changed_is_painted_again(ledger: tuple[list[Run], list[RunSummary]]) -> None:
    runs, summaries = ledger
    keeper = ScalingKeeper()
    before = keeper.part(runs, summaries, None).groups
    same = keeper.part(runs, summaries, None).groups
    assert all(one is other for one, other in zip(before, same, strict=True))
    after = keeper.part(runs, [replace(summaries[0], wall_s=1.0), *summaries[1:]], None).groups
    painted = [one.title for one, other in zip(before, after, strict=True) if one is not other]
    assert painted == [group.title for group in before if "A" in group.title.split(" · ")]
    assert len(painted) == len(before) / 2 > 0


def test_pictures_beyond_the_limit_are_counted(
    ledger: tuple[list[Run], list[RunSummary]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "MOST_PICTURES", 4)
    part = ScalingKeeper().part(*ledger, None)
    assert sum(len(group.pictures) for group in part.groups) <= 4
    assert part.left_out == 10 - sum(len(group.pictures) for group in part.groups)


def test_without_matplotlib_the_page_says_what_to_install(
    ledger: tuple[list[Run], list[RunSummary]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    part = ScalingKeeper().part(*ledger, None)
    assert (part.groups, part.missing_package) == ((), True)
    assert ScalingKeeper().part(ledger[0][:1], ledger[1][:1], None) == scaling.ScalingPart()
