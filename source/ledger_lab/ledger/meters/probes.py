"""Probes: times of the callables of a running program, with their callers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """A callable to time."""

    owner: Any
    """Object that holds it."""
    attribute: str
    """Name under which its callers look it up."""
    name: str
    """Name in the profile."""
    yields: bool = False
    """Whether it is a generator; then the work of its consumer on each item is timed."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Times of one callable under one chain of callers."""

    path: tuple[str, ...]
    """Names of the callers, the outermost first, then its own name."""
    total_ns: list[int] = field(default_factory=list)
    """Time per call [ns]."""
    own_ns: list[int] = field(default_factory=list)
    """Time per call without timed inner calls [ns]."""

    def percentile_us(self, percent: int) -> float:
        """Return a percentile of the time per call [µs], interpolated between samples.

        Args:
            percent: From 1 to 99.
        """
        if len(self.total_ns) == 1:
            return self.total_ns[0] / 1e3
        return statistics.quantiles(self.total_ns, n=100, method="inclusive")[percent - 1] / 1e3


class Probes:
    """Times callables by replacing them, for as long as they are attached."""

    def __init__(
        self, synchronize: Callable[[], None] | None = None, clock_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        """Start with nothing attached.

        Args:
            synchronize: Run at both ends of each call, so that queued device work counts for the call that queued it.
            clock_ns: Monotonic clock [ns].
        """
        self._synchronize, self._clock_ns = synchronize, clock_ns
        self._open: list[tuple[tuple[str, ...], int, list[int]]] = []
        self._undo: list[Callable[[], None]] = []
        self._samples: dict[tuple[str, ...], Samples] = {}

    @property
    def samples(self) -> list[Samples]:
        """All timed callables: callers before their callees, in the order of their first calls."""
        first = {path: place for place, path in enumerate(self._samples)}

        def order(path: tuple[str, ...]) -> list[int]:
            return [first.get(path[: depth + 1], 0) for depth in range(len(path))]

        return sorted((s for s in self._samples.values() if s.total_ns), key=lambda s: order(s.path))

    def open(self, name: str) -> None:
        """Start to time a part. Parts that are opened before this part is closed are inner parts."""
        path = (*self._open[-1][0], name) if self._open else (name,)
        self._samples.setdefault(path, Samples(path=path))
        self._open.append((path, self._now_ns(), []))

    def close(self) -> None:
        """End the part that was opened last.

        Raises:
            RuntimeError: If nothing is open.
        """
        if not self._open:
            raise RuntimeError("no probe is open")
        path, began_ns, inside_ns = self._open.pop()
        passed_ns = self._now_ns() - began_ns
        self._samples[path].total_ns.append(passed_ns)
        self._samples[path].own_ns.append(passed_ns - sum(inside_ns))
        if self._open:
            self._open[-1][2].append(passed_ns)

    @contextmanager
    def window(self, name: str) -> Iterator[None]:
        """Time the body of the context."""
        self.open(name)
        try:
            yield
        finally:
            self.close()

    def attach(self, part: Part) -> None:
        """Time a callable until :meth:`detach`.

        Args:
            part: The callable.

        Raises:
            AttributeError: If its owner has no such attribute, because a library has changed.
        """
        owner, attribute = part.owner, part.attribute
        original = getattr(owner, attribute)
        own = attribute in vars(owner)
        setattr(owner, attribute, (_Yielding if part.yields else _Probed)(self, original, part.name))
        self._undo.append(lambda: setattr(owner, attribute, original) if own else delattr(owner, attribute))

    def detach(self) -> None:
        """Restore all callables."""
        while self._undo:
            self._undo.pop()()

    def _now_ns(self) -> int:
        """Return the time when all queued work is done."""
        if self._synchronize is not None:
            self._synchronize()
        return self._clock_ns()


class _Probed:
    """A timed callable with the attributes of the original, because a term may be an object with methods."""

    def __init__(self, probes: Probes, function: Callable[..., Any], name: str) -> None:
        """Wrap a callable."""
        self._probes, self._function, self._name = probes, function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        self._probes.open(self._name)
        try:
            return self._function(*args, **kwargs)
        finally:
            self._probes.close()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the callable."""
        return getattr(self._function, name)


class _Yielding(_Probed):
    """A generator that times its consumer."""

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield the items of the generator."""
        for item in self._function(*args, **kwargs):
            self._probes.open(self._name)
            try:
                yield item
            finally:
                self._probes.close()
