"""A checkpoint is whole or absent, and stays where it is once it is spoken of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger_lab.runners.checkpoint_file import whole_file


def test_a_checkpoint_and_its_name_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronized: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synchronized.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    path = tmp_path / "model_1.pt"
    with whole_file(path) as unfinished:
        unfinished.write_bytes(b"weights")
        assert not path.exists()
    assert path.read_bytes() == b"weights"
    assert synchronized == [str(unfinished), str(tmp_path)]


def test_what_fails_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="banana"), whole_file(tmp_path / "model_1.pt") as unfinished:
        unfinished.write_bytes(b"wei")
        raise ValueError("banana")
    assert not list(tmp_path.iterdir())
