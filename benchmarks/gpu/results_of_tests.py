"""Plugin of pytest: writes the results of all tests so far after each test, because a time limit may end the rest."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ledger_lab.files import whole_file


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the file to write."""
    parser.addoption("--results", type=Path, required=True, metavar="FILE", help="JSON file to write.")


def pytest_configure(config: pytest.Config) -> None:
    """Begin without results."""
    config.pluginmanager.register(_Results(config.getoption("--results")))


class _Results:
    """The results so far."""

    def __init__(self, path: Path) -> None:
        """Begin without results.

        Args:
            path: JSON file to write.
        """
        self._path = path
        self._by_test: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a test, or of what it does before or after; see :class:`pytest.TestReport`."""
        if report.when != "call" and report.passed:
            return
        self._by_test[report.nodeid] = _result(report)
        counts = Counter(result.partition(":")[0] for result in self._by_test.values())
        with whole_file(self._path) as file:
            file.write_text(json.dumps({"counts": counts, "tests": self._by_test}), encoding="utf-8")


def _result(report: pytest.TestReport) -> str:
    """Return ``passed``, or ``skipped``, ``failure`` or ``error`` with the reason."""
    if report.passed:
        return "passed"
    kind = "skipped" if report.skipped else "failure" if report.when == "call" else "error"
    found = report.longrepr
    crash = getattr(found, "reprcrash", None)
    reason = found[2] if isinstance(found, tuple) else crash.message if crash else str(found)
    return f"{kind}: {reason[:300]}"
