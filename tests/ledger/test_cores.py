"""Pauses of garbage collection."""

from __future__ import annotations

import gc
import weakref

import pytest

from ledger_lab.ledger.cores import imports
from ledger_lab.reports.terminal.script import imported_later


class _Circle:
    """Something that only garbage collection can remove."""

    def __init__(self) -> None:
        self.itself = self


def test_collections_leave_out_what_exists_after_imports_but_no_garbage() -> None:
    garbage, kept = weakref.ref(_Circle()), _Circle()
    try:
        with imports():
            assert not gc.isenabled()
        assert gc.isenabled() and garbage() is None
        assert not any(kept is each for each in gc.get_objects())
        later = weakref.ref(_Circle())
        gc.collect()
        assert later() is None, "what is made later is collected as usual"
    finally:
        gc.unfreeze()


def derivatives() -> bool:
    """Tell whether Warp would compile derivatives of kernels that are imported now."""
    import warp

    return warp.config.enable_backward


def test_a_program_that_is_imported_later_compiles_no_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    import warp

    monkeypatch.setattr(warp.config, "enable_backward", True)
    assert imported_later(f"{__name__}:derivatives")() is False


def test_a_program_that_is_imported_later_runs_with_collection() -> None:
    before = gc.get_freeze_count()
    try:
        assert imported_later("gc:isenabled")()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
