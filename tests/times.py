"""Adds ``--processor-times`` to pytest: where the processor time of the tests goes.

Times by the clock say little on a machine that does other things, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warm import processor_s

_PROPERTY = "processor_s"
_SHOWN = 25
"""Tests in the list of the longest."""
_begun: pytest.StashKey[float] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processor-times",
        action="store_true",
        help="Show the processor time of folders and of the longest tests.",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_begun] = processor_s()
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield
    item.user_properties.append((_PROPERTY, processor_s() - item.stash[_begun]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--processor-times"):
        return
    tests, folders = Counter[str](), Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport) or report.when != "teardown":  # warnings are listed, too
                continue
            for name, seconds in report.user_properties:
                if name == _PROPERTY:
                    tests[report.nodeid] += seconds
                    folders["/".join(Path(report.nodeid.partition("::")[0]).parts[:2])] += seconds
    terminalreporter.section("processor times, with those of child processes")
    for spent in (folders.most_common(), tests.most_common(_SHOWN)):
        for name, seconds in spent:
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}")
        terminalreporter.write_line(f"{sum(seconds for _, seconds in spent):7.1f} s")
