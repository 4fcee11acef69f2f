"""Energy from samples: each moment of a device counts once, and gaps are not guessed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger_lab.ledger import DeviceSample, HostSample, Run, Status, Telemetry
from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.runs import Attempt
from ledger_lab.reports.usage import summarize_energy, summarize_host
from tests.fakes.ledgers import SECOND, declared, device_sample, ended, journal_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

Samples = dict[float, DeviceSample]
"""By the age of the attempt [s]."""


def sample(energy_j: float | None = None, power_w: float | None = None, uuid: str = "GPU-a") -> DeviceSample:
    return device_sample(uuid, power_w=power_w, energy_mj=None if energy_j is None else round(energy_j * 1000))


def journal(samples: Samples, at: float = 0.0, hosts: dict[float, HostSample] | None = None) -> JournalContent:
    """Return a journal of an attempt that began so many seconds after noon."""
    ages = sorted({*samples, *(hosts or {})})
    rows = [
        Telemetry(
            wall_ns=round(age * SECOND),
            host=(hosts or {}).get(age),
            devices=[samples[age]] if age in samples else [],
        )
        for age in ages
    ]
    times = [NOON + timedelta(seconds=at + age) for age in ages]
    return journal_of(rows, times)


def attempt(number: int, wall_s: float, *journals: JournalContent) -> Attempt:
    end = ended(Status.CRASHED, round(wall_s * SECOND))
    return Attempt(number, (journal_of([end], [NOON]), *journals), ())


def run(*attempts: Attempt, device: str = "cuda:0", world_size: int = 1) -> Run:
    return Run(Path(), declared("aa", device=device, world_size=world_size), NOON, attempts, (), ())


def joules(a_run: Run) -> float | None:
    kwh = summarize_energy(a_run).kwh
    return None if kwh is None else round(kwh * 3.6e6, 6)


def ramp(start_s: int, end_s: int, watts: float, offset_j: float = 1e6, uuid: str = "GPU-a") -> Samples:
    """Return a sample every second of a counter that counts so many watts."""
    return {float(s): sample(offset_j + watts * s, watts, uuid) for s in range(start_s, end_s + 1)}


def test_a_counter_gives_the_energy_from_first_to_last_sample() -> None:
    summary = summarize_energy(run(attempt(1, 100, journal(ramp(1, 99, 300.0)))))
    assert summary.kwh == pytest.approx(98 * 300 / 3.6e6)
    assert (summary.source, summary.undefined_reason) == ("counter", None)
    assert summary.devices[0].metered_s == 98.0


STEADY = ramp(0, 100, 300.0)
LATE = {age - 0.5: sample(1e6 + 300 * age, 300.0) for age in STEADY if age >= 20}
"""From an observer that began half a second later."""
RISING = {float(s): sample(1e6 + 100.0 * min(s, 50) + 500.0 * max(s - 50, 0)) for s in range(101)}


@pytest.mark.parametrize(
    ("attempts", "energy_j"),
    [
        # A counter covers missing samples, loses at most one interval when it starts over, and no jump adds anything.
        ([[ramp(0, 10, 300.0) | {11.0: sample(), 12.0: sample()} | ramp(60, 100, 300.0)]], 100 * 300),
        ([[ramp(0, 50, 300.0) | ramp(51, 100, 300.0, offset_j=-50.5 * 300)]], 50 * 300 + 150 + 49 * 300),
        ([[STEADY | {50.0: sample(0.0)}]], 98 * 300),
        ([[STEADY | {50.001: sample(1e6 + 50 * 300 + 30)}]], 100 * 300),  # updated every 100 ms
        # Observers of one device count once, also if each of them saw only a part; devices add up.
        ([[STEADY, LATE, STEADY]], 100 * 300),
        ([[dict(list(RISING.items())[:41]), dict(list(RISING.items())[20:])]], 50 * 100 + 50 * 500),
        ([[STEADY, ramp(0, 100, 200.0, uuid="GPU-b")]], 100 * 500),
        # Attempts add up, without what was used between them, and whatever the clock was set to.
        ([[STEADY], [ramp(0, 50, 300.0, offset_j=9e6)]], 150 * 300),
        ([[STEADY], [ramp(0, 100, 300.0, offset_j=1e6 + 200 * 300)]], 200 * 300),
    ],
)
def test_each_moment_of_a_device_counts_once(attempts: list[list[Samples]], energy_j: float) -> None:
    whole = run(
        *(
            attempt(number, max(own[0]), *(journal(each, at=60.0 * number) for each in own))
            for number, own in enumerate(attempts, start=1)
        )
    )
    assert joules(whole) == energy_j


def test_power_is_integrated_without_a_counter_and_named_as_source() -> None:
    samples = {0.0: sample(None, 100.0), 1.0: sample(None, 300.0), 3.0: sample(None, 200.0)}
    summary = summarize_energy(run(attempt(1, 3, journal(samples))))
    assert summary.kwh == pytest.approx((200 + 500) / 3.6e6)
    assert summary.source == summary.devices[0].energy_source == "power"


def test_power_is_not_guessed_over_a_long_gap() -> None:
    samples = {float(s): sample(None, 100.0) for s in (*range(0, 41), *range(60, 101))}
    summary = summarize_energy(run(attempt(1, 100, journal(samples))))
    assert summary.kwh is None and summary.devices[0].metered_s == 80.0
    assert summary.undefined_reason == "attempt 1: the energy of GPU-a is known for 80 of 100 s"


def test_each_attempt_has_its_own_energy_or_none() -> None:
    metered, silent = attempt(1, 100, journal(ramp(0, 100, 300.0))), attempt(2, 60)
    brief, brief_silent = attempt(3, 3, journal(ramp(1, 3, 300.0), at=500.0)), attempt(4, 3)
    summary = summarize_energy(run(metered, silent, brief, brief_silent))
    assert summary.attempt_kwh == [pytest.approx(30_000 / 3.6e6), None, pytest.approx(600 / 3.6e6), None]
    assert summary.kwh is None and summary.undefined_reason == "attempt 2: 0 of 1 accelerators metered"


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    content = journal(ramp(0, 100, 300.0))
    times = [time - timedelta(hours=1) if index > 50 else time for index, time in enumerate(content.times)]
    assert joules(run(attempt(1, 100, journal_of(content.rows, times)))) == 100 * 300


@pytest.mark.parametrize(
    ("attempts", "device", "world_size", "reason"),
    [
        ([attempt(1, 100)], "cpu", 1, "the run used no accelerator"),
        ([attempt(1, 100)], "cuda:0", 1, "no telemetry kept"),
        ([attempt(1, 3, journal({1.0: sample(5.0, 100.0)}))], "cuda:0", 1, "the run was over before an accelerator"),
        ([attempt(1, 100, journal(ramp(0, 100, 1.0))), attempt(2, 60)], "cuda:0", 1, "attempt 2: 0 of 1 accelerators"),
        ([attempt(1, 100, journal(ramp(0, 100, 1.0)))], "cuda:0", 4, "attempt 1: 1 of 4 accelerators"),
        ([attempt(1, 100, journal(ramp(0, 80, 1.0)))], "cuda:0", 1, "attempt 1: the energy of GPU-a is known for 80"),
        (
            [
                attempt(
                    1, 10, journal(ramp(0, 10, 1.0)), journal({0.0: sample(uuid="GPU-b"), 9.0: sample(uuid="GPU-b")})
                )
            ],
            *("cuda:0", 2, "attempt 1: the energy of GPU-b is known for 0 of 10 s"),
        ),
    ],
)
def test_an_energy_that_is_not_known_is_none_with_its_reason(
    attempts: list[Attempt], device: str, world_size: int, reason: str
) -> None:
    summary = summarize_energy(run(*attempts, device=device, world_size=world_size))
    assert (summary.kwh, summary.source) == (None, None)
    assert summary.undefined_reason is not None and summary.undefined_reason.startswith(reason)


def host(cpu_s: float, thread: float | None, memory_gb: float = 1.0, available_gb: float = 8.0) -> HostSample:
    return HostSample(
        cpu_s=cpu_s,
        busiest_thread=thread,
        memory_bytes=round(memory_gb * 1e9),
        available_bytes=round(available_gb * 1e9),
    )


def test_the_host_is_summarized_over_the_time_that_it_was_watched() -> None:
    first = {2.0: host(3.0, 0.5, available_gb=4.0), 3.0: host(1.0, 1.0, memory_gb=3.0)}
    second = {1.0: host(4.0, None)}
    summary = summarize_host(run(attempt(1, 60, journal({}, hosts=first)), attempt(2, 9, journal({}, hosts=second))))
    assert summary is not None
    assert summary.cpu_s_per_s == pytest.approx(8 / 4)
    assert summary.mean_busiest_thread == pytest.approx((2 * 0.5 + 1.0) / 3)
    assert (summary.peak_busiest_thread, summary.peak_memory_gb, summary.least_available_gb) == (1.0, 3.0, 4.0)
    both = summarize_host(run(attempt(1, 60, *(journal({}, hosts={2.0: host(cpu_s, 1.0)}) for cpu_s in (1.0, 3.0)))))
    assert both is not None and both.cpu_s_per_s == pytest.approx(2.0), "processes of one attempt share its time"
    assert summarize_host(run(attempt(1, 100), attempt(2, 9, journal({1.0: sample()})))) is None
