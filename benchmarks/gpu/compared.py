"""Compares parts of the GPU kit with each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.gpu.part import Figures
from benchmarks.timing import Measured, disagreements

_SCORED = re.compile(r"speed-(\d+)-scored")


def compared(results: Mapping[str, Figures]) -> Figures:
    """Return ratios of parts that ran in one call; what a part is missing for is left out.

    Args:
        results: Figures of the parts by their names.

    Returns:
        Environment steps per second by the number of environments, without and with held-out slots; the share of the
        speed that the slots take; the speed with a captured physics step over that with launched kernels; seconds of
        compilation and of the whole start-up, cold and warm; and where phases by events differ from those of a
        synchronized training.
    """
    found: Figures = {}
    plain = {int(name.split("-")[1]): each for name, each in results.items() if re.fullmatch(r"speed-\d+", name)}
    scored = {int(fit[1]): results[name] for name in results if (fit := _SCORED.fullmatch(name))}
    if plain or scored:
        found["steps_per_s"] = {
            str(size): {"without": _speed(plain.get(size)), "with_held_out_slots": _speed(scored.get(size))}
            for size in sorted({*plain, *scored})
        }
    for size in sorted(plain.keys() & scored.keys()):
        found.setdefault("speed_lost_to_held_out_slots", {})[str(size)] = 1 - _speed(scored[size]) / _speed(plain[size])
    for size, captured in plain.items():
        if launched := results.get(f"speed-{size}-launched"):
            found["speed_captured_over_launched"] = _speed(captured) / _speed(launched)
    for size, by_events in scored.items():
        if synchronized := results.get(f"speed-{size}-scored-synchronized"):
            found["events_against_synchronized"] = disagreements(
                {"events": _measured(by_events), "synchronized": _measured(synchronized)}
            )
    for name in ("start-cold", "start-warm"):
        if name in results:
            phases = results[name]["phases"]
            found[name] = {phase: phases.get(phase) for phase in ("startup", "compile")}
    return found


def _speed(result: Figures | None) -> Any:  # noqa: ANN401 - a number, or None without a result
    """Return environment steps per second."""
    return None if result is None else result["steps_per_s"]


def _measured(result: Figures) -> Measured:
    """Return the times of a training as the benchmark of the clocks compares them."""
    return Measured(
        timing=result["timing"],
        iterations=result["iterations"],
        phases_s=result["iteration_phases_s"],
        device_bound_s=result["device_bound_s"],
        wall_s=result["iteration_s"],
    )
