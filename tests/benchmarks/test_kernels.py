"""Kernels are compiled for a GPU as Warp would compile them there, on a machine without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import warp

from benchmarks.gpu.ahead import Ahead
from benchmarks.gpu.parts import TASKS, all_parts


@warp.kernel(module="unique", enable_backward=False)
def count(counted: warp.array(dtype=float)) -> None:  # type: ignore[valid-type]
    counted[warp.tid()] += 1.0


@pytest.mark.parametrize(
    ("launched", "block_dims"),
    [
        ({}, [256]),
        ({"block_dim": 64}, [64]),
        ({"block_dim": 1}, [32, 128]),  # what Newton asks for on a CPU alone
    ],
)
def test_a_module_that_the_cpu_loads_is_compiled_for_the_gpu(
    launched: dict[str, int], block_dims: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warp.config, "kernel_cache_dir", str(tmp_path))
    counted = warp.zeros(3, dtype=float, device="cpu")
    ahead = Ahead(90)
    with ahead.compiling():
        for _ in range(2):
            warp.launch(count, dim=3, inputs=[counted], device="cpu", **launched)
    warp.launch(count, dim=3, inputs=[counted], device="cpu", **launched)
    assert counted.numpy().tolist() == [3.0, 3.0, 3.0]
    modules = [count.module.get_module_identifier(block_dim) for block_dim in block_dims]
    assert sorted(path.stem for path in tmp_path.rglob("*.ptx")) == sorted(f"{each}.sm90" for each in modules)
    assert len(ahead.compiled_s) == len(block_dims)


def test_the_kernels_of_all_tasks_of_the_kit_are_compiled() -> None:
    named = {word for part in all_parts("cuda") for word in part.command if word.startswith("LedgerLab-")}
    assert named == set(TASKS)
