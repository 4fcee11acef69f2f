"""``python -m benchmarks images`` measures images in each form, and refuses impossible sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import images
from ledger_lab.errors import UserError

SMALL = ["--px", "16", "--images", "3", "--batch", "2", "--repeats", "2"]


@pytest.mark.parametrize("task", [None, pytest.param("LedgerLab-Cartpole", marks=pytest.mark.thorough)])
def test_images_are_measured(task: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_FILMS", ("cartpole",))
    asked = [*SMALL, "--json", str(tmp_path / "found.json"), "--tasks", *([] if task is None else [task])]
    assert images.bench_images(asked) == 0
    found = json.loads((tmp_path / "found.json").read_text())["images"]
    assert set(found) == {"film of cartpole", *([] if task is None else [f"camera in {task}"])}
    for figures in found.values():
        assert figures["byte_bytes"] == 3 * 16 * 16 and figures["float_bytes"] == 4 * figures["byte_bytes"]
        assert 0 < figures["zlib_bytes"] < figures["byte_bytes"]
        assert min(figures.values()) > 0


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UserError, match="all sizes must be at least 1"):
        images.bench_images(["--px", "0"])
