"""The hash of code depends on its content, not on its folder."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ledger_lab.ledger.meters.host import package_sha256


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to import from, with the package ``acme_park`` and the module ``acme_alone``."""
    (tmp_path / "acme_park" / "mdp").mkdir(parents=True)
    (tmp_path / "acme_park" / "__init__.py").touch()
    (tmp_path / "acme_park" / "mdp" / "rewards.py").write_text("def away() -> float:\n    return -1.0\n")
    (tmp_path / "acme_alone.py").write_text("LIMIT = 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return tmp_path


def test_an_edited_or_added_file_changes_the_code_hash(site: Path) -> None:
    rewards = site / "acme_park" / "mdp" / "rewards.py"
    before = package_sha256("acme_park")
    rewards.write_text(rewards.read_text().replace("-1.0", "-2.0"))
    edited = package_sha256("acme_park")
    rewards.rename(rewards.with_name("penalties.py"))
    renamed = package_sha256("acme_park")
    assert len({before, edited, renamed}) == 3
    assert package_sha256("acme_park") == renamed


def test_files_that_are_not_code_do_not_change_the_hash(site: Path) -> None:
    before = package_sha256("acme_park")
    (site / "acme_park" / "report.html").write_text("<html>")
    (site / "acme_park" / ".#rewards.py").symlink_to("nobody@nowhere")
    (site / "acme_park" / "__pycache__").mkdir()
    (site / "acme_park" / "__pycache__" / "rewards.cpython-312.pyc").write_bytes(b"")
    assert package_sha256("acme_park") == before
