"""From the sampler through journal and reader to the energy of a run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from ledger_lab.ledger import EnergyReading, Journal, Run, SupervisionStarted, Telemetry, read_ledger
from ledger_lab.ledger.meters.gpu import silent_sample
from ledger_lab.ledger.meters.telemetry import Sampler
from ledger_lab.ledger.sums import TelemetrySums
from ledger_lab.reports import RunSummary, render_run, summarize_run
from tests.fakes.ledgers import SECOND, write_further_rank, write_run
from tests.fakes.traced_devices import TracedDevices

TRACE = Path(__file__).parents[2] / "fakes" / "made_for_tests.trace.jsonl"


class Clock:
    """A clock that a test moves."""

    now_ns = 1000

    def __call__(self) -> int:
        return self.now_ns


def test_the_energy_of_a_trace_matches_a_calculation_by_hand(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", device="cuda:0", world_size=2)
    write_further_rank(run_dir)
    clock = Clock()
    sampler = Sampler(os.getpid(), clock.now_ns, TracedDevices(TRACE).sample, clock_ns=clock)
    with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
        journal.append(
            SupervisionStarted(run_id="aa", attempt=1, pid=2**22 + 1, host=socket.gethostname(), wall_ns=SECOND)
        )
        for _ in range(5):
            clock.now_ns += SECOND
            journal.append(sampler.sample())
    (run,) = read_ledger(tmp_path).runs
    rows = run.attempts[0].of(Telemetry)
    assert [row.wall_ns for row in rows] == [n * SECOND for n in range(1, 6)]
    summary = summarize_run(run)
    # The first GPU does not answer at 3 s, and its counter starts over between 4 s and 5 s:
    # (5300 - 5000) + (6000 - 5300) + 100 J. The second one: 4 × 200 J.
    first, second = summary.devices
    assert first.energy_kwh == pytest.approx(1100 / 3.6e6)
    assert second.energy_kwh == pytest.approx(800 / 3.6e6)
    assert (summary.energy_kwh, summary.energy_source) == (pytest.approx(1900 / 3.6e6), "counter")
    assert summary.energy_undefined_reason is None
    assert (first.mean_utilization, first.peak_utilization) == (pytest.approx(0.5), 0.9)
    assert (first.mean_power_w, first.peak_power_w) == (pytest.approx(270.0), 400.0)
    assert (first.peak_temperature_c, first.peak_memory_gb, first.metered_s) == (61.0, 9.5, 4.0)
    assert summary.mean_gpu_utilization == pytest.approx((10 + 90 + 80 + 20 + 0 + 4 * 50) / 100 / 9)
    assert summary.host is not None and summary.host.peak_memory_gb > 0.01
    text = everything(run, summary)
    assert "0.528 Wh" in text and "GPU-0a000000    50% busy · 270 W · up to 61 °C · up to 9.5 GB" in text


def everything(run: Run, summary: RunSummary) -> str:
    """Return everything that a report shows about a run."""
    console = Console(width=200)
    with console.capture() as shown:
        console.print(render_run(run, summary, None, 200))
    return shown.get()


def test_a_run_without_accelerators_has_no_column_for_them(tmp_path: Path) -> None:
    write_run(tmp_path, "aa")
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    assert (summary.energy_kwh, summary.energy_source, summary.mean_gpu_utilization) == (None, None, None)
    assert (summary.devices, summary.host) == ([], None)
    text = everything(run, summary)
    assert "energy" not in text and "GPU" not in text and "thread" not in text


def test_each_sample_covers_the_time_since_the_previous_sample() -> None:
    program = (
        "import time\n"
        "def burn(cpu_s):\n"
        "    start = time.thread_time()\n"
        "    while time.thread_time() - start < cpu_s: pass\n"
        "for _ in range(2):\n"
        "    burn(0.4); print('ready', flush=True); input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1) as process:
        assert process.stdin and process.stdout
        clock = Clock()
        sampler = Sampler(process.pid, clock.now_ns, clock_ns=clock)
        process.stdout.readline()
        clock.now_ns += 2 * SECOND
        first = sampler.sample()
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        clock.now_ns += SECOND
        second = sampler.sample()
        process.kill()
        process.wait()
        clock.now_ns += SECOND
        third = sampler.sample()
    assert first.host is not None and second.host is not None and first.host.busiest_thread is not None
    assert 0.4 <= first.host.cpu_s < 0.8  # and the start of Python
    assert first.host.busiest_thread == pytest.approx(first.host.cpu_s / 2, abs=0.05)
    assert second.host.busiest_thread == pytest.approx(second.host.cpu_s) and 0.35 <= second.host.cpu_s < 0.6
    assert third == Telemetry(wall_ns=4 * SECOND, host=None, devices=[])


def test_the_energy_counts_from_the_start_if_the_counter_was_read_then(tmp_path: Path) -> None:
    at_start = {"GPU-0a000000-made-for-tests-000000000000": EnergyReading(wall_ns=SECOND // 2, energy_mj=4_900_000)}
    run_dir = write_run(tmp_path, "aa", device="cuda:0")
    clock = Clock()
    sampler = Sampler(
        os.getpid(), clock.now_ns, TracedDevices(TRACE).sample, energy_before=at_start.get, clock_ns=clock
    )
    with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
        journal.append(
            SupervisionStarted(run_id="aa", attempt=1, pid=2**22 + 1, host=socket.gethostname(), wall_ns=SECOND)
        )
        clock.now_ns += 8 * SECOND
        for _ in range(2):
            journal.append(sampler.sample())
            clock.now_ns += SECOND
    assert journal.path.read_text("utf-8").count("energy_before") == 1
    (run,) = read_ledger(tmp_path).runs
    assert [[device.energy_before for device in row.devices] for row in run.attempts[0].of(Telemetry)] == [
        [*at_start.values(), None],
        [None, None],
    ]
    first, second = summarize_run(run).devices
    # From 0.5 s to 9 s: 5300 - 4900 J. The other device has no earlier reading: 200 J from 8 s to 9 s.
    assert (first.energy_kwh, first.metered_s) == (pytest.approx(400 / 3.6e6), 8.5)
    assert (second.energy_kwh, second.metered_s) == (pytest.approx(200 / 3.6e6), 1.0)


@pytest.mark.parametrize("wall_ns", [8 * SECOND, 8 * SECOND + SECOND // 2])
def test_an_earlier_reading_that_is_not_earlier_counts_for_nothing(wall_ns: int) -> None:
    sample = replace(silent_sample("GPU-a"), energy_mj=3000, energy_before=EnergyReading(wall_ns=wall_ns, energy_mj=0))
    sums = TelemetrySums()
    sums.add(datetime(2026, 1, 1, tzinfo=UTC), Telemetry(wall_ns=8 * SECOND, host=None, devices=[sample]))
    assert sums.devices["GPU-a"].stretches == []


def test_a_thread_share_is_at_most_1_and_none_without_time() -> None:
    clock = Clock()
    sampler = Sampler(os.getpid(), clock.now_ns, clock_ns=clock)
    first = sampler.sample().host
    assert first is not None and first.busiest_thread is None and first.cpu_s > 0
    clock.now_ns += 1
    begun_s = time.thread_time()
    while time.thread_time() < begun_s + 0.1:
        pass
    second = sampler.sample().host
    assert second is not None and second.cpu_s > 0 and second.busiest_thread == 1.0
