"""The page's section about scaling has a bounded number of pictures, and says what is missing."""

from __future__ import annotations

import sys

import pytest

from ledger_lab.ledger import Run, read_ledger
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.reports.page.pictures import ScalingPart
from ledger_lab.studies.figures import scaling_page
from ledger_lab.studies.figures.scaling_page import scaling_part
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


def test_pictures_beyond_the_limit_are_counted(
    ledger: tuple[list[Run], list[RunSummary]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling_page, "MOST_PICTURES", 4)
    part = scaling_part(*ledger, None)
    assert 0 < sum(len(group.pictures) for group in part.groups) <= 4
    assert part.left_out == 10 - sum(len(group.pictures) for group in part.groups)


def test_without_matplotlib_the_page_says_what_to_install(
    ledger: tuple[list[Run], list[RunSummary]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    part = scaling_part(*ledger, None)
    assert (part.groups, part.missing_package) == ((), True)
    assert scaling_part(ledger[0][:1], ledger[1][:1], None) == ScalingPart()
