"""Times of the callables of a running program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger_lab.ledger.meters.probes import Part, Probes, Samples


class Clock:
    """A clock that moves when somebody works."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class Term:
    """A term of a manager that is an object."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.resets = clock, 0

    def __call__(self, ns: int) -> int:
        self.clock.now_ns += ns
        return 2 * ns

    def reset(self) -> None:
        self.resets += 1


class Program:
    """Something with parts."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.term = clock, Term(clock)

    def step(self, ns: int) -> int:
        self.clock.now_ns += 10
        return self.term(ns)

    def batches(self, count: int) -> Iterator[int]:
        for batch in range(count):
            self.clock.now_ns += 1
            yield batch


@pytest.fixture
def program() -> Program:
    return Program(Clock())


def by_path(probes: Probes) -> dict[tuple[str, ...], Samples]:
    return {each.path: each for each in probes.samples}


def test_nested_calls_count_for_their_callers_and_own_times_do_not(program: Program) -> None:
    probes = Probes(clock_ns=program.clock)
    probes.attach(Part(program, "step", "step"))
    probes.attach(Part(program, "term", "term"))
    with probes.window("loop"):
        assert [program.step(ns) for ns in (5, 7)] == [10, 14], "results pass through"
        program.clock.now_ns += 100
    found = by_path(probes)
    assert list(found) == [("loop",), ("loop", "step"), ("loop", "step", "term")]
    assert (found[("loop",)].total_ns, found[("loop",)].own_ns) == ([132], [100])
    assert (found[("loop", "step")].total_ns, found[("loop", "step")].own_ns) == ([15, 17], [10, 10])
    assert found[("loop", "step", "term")].own_ns == [5, 7]
    assert sum(sum(each.own_ns) for each in found.values()) == 132, "own times sum to the whole"


def test_a_generator_is_timed_by_its_consumer(program: Program) -> None:
    probes = Probes(clock_ns=program.clock)
    probes.attach(Part(program, "batches", "batch", yields=True))
    probes.attach(Part(program, "term", "term"))
    with probes.window("update"):
        for batch in program.batches(3):
            program.term(batch + 1)
            program.clock.now_ns += 20
    found = by_path(probes)
    assert found[("update", "batch")].total_ns == [21, 22, 23]
    assert found[("update", "batch", "term")].total_ns == [1, 2, 3]
    assert found[("update",)].own_ns == [3], "making the batches"


def test_detaching_restores_all_callables(program: Program) -> None:
    term = program.term
    probes = Probes(clock_ns=program.clock)
    for attribute in ("step", "term", "batches"):
        probes.attach(Part(program, attribute, attribute))
    program.term.reset()
    assert term.resets == 1, "what stands in for an object has its methods"
    probes.detach()
    assert program.term is term and set(vars(program)) == {"clock", "term"}
    program.step(5)
    assert probes.samples == []


def test_a_call_that_raises_is_closed(program: Program) -> None:
    probes = Probes(clock_ns=program.clock)
    probes.attach(Part(program, "step", "step"))
    with pytest.raises(TypeError):
        program.step("no number")  # type: ignore[arg-type]
    program.step(1)
    assert set(by_path(probes)) == {("step",)}
    with pytest.raises(RuntimeError, match="no probe is open"):
        probes.close()
