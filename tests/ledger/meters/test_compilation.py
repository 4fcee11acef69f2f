"""Compilation is metered apart from computation."""

from __future__ import annotations

import time
import uuid

import warp

from ledger_lab.ledger.meters.compilation import metered_compilation, metered_torch_compilation
from ledger_lab.ledger.meters.phases import Phase, PhaseClock


def test_building_a_kernel_counts_as_compile_and_launching_it_does_not(tmp_path, monkeypatch) -> None:  # noqa: ANN001
    warp.init()
    monkeypatch.setattr(warp.config, "kernel_cache_dir", str(tmp_path))
    source = tmp_path / f"kernel_{uuid.uuid4().hex}.py"
    source.write_text(
        "import warp as wp\n\n@wp.kernel\ndef double(x: wp.array(dtype=float)):\n"
        "    i = wp.tid()\n    x[i] = x[i] * 2.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    kernel = __import__(source.stem).double
    values = warp.ones(4, dtype=float, device="cpu")
    clock = PhaseClock(time.perf_counter_ns())
    told: list[str] = []
    with metered_compilation(clock, lambda: told.append("builds")) as built:
        with clock.window(Phase.SIMULATE):
            warp.launch(kernel, dim=4, inputs=[values], device="cpu")
        first, _ = clock.flush()
        with clock.window(Phase.SIMULATE):
            warp.launch(kernel, dim=4, inputs=[values], device="cpu")
        second, _ = clock.flush()
    assert values.numpy().tolist() == [4.0] * 4
    assert first["compile"] > 10 * first["simulate"]
    assert "compile" not in second
    assert told == ["builds"] and 0 < built.time_ns <= first["compile"]
    kernel.module.unload()
    with metered_compilation(clock, lambda: told.append("builds")) as built:
        warp.launch(kernel, dim=4, inputs=[values], device="cpu")
    assert built.time_ns == 0 and told == ["builds"], "its cache has the kernel"


def test_torch_compiles_once_for_the_phase_compile_and_then_computes() -> None:
    import torch

    double = torch.compile(lambda x: x * 2.0, backend="eager")
    clock = PhaseClock(time.perf_counter_ns())
    with metered_torch_compilation(clock):
        with clock.window(Phase.INFER):
            double(torch.ones(4))
        first, _ = clock.flush()
        with clock.window(Phase.INFER):
            assert double(torch.ones(4)).tolist() == [2.0] * 4
        second, _ = clock.flush()
    assert first["compile"] > 0
    assert "compile" not in second
    torch.compile(lambda x: x * 3.0, backend="eager")(torch.ones(4))
    assert "compile" not in clock.flush()[0], "nobody listens any more"
