"""Reports health events in the journal and the terminal, and ends the run after the events of ``--stop_on``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil
from rich.console import Console

from ledger_lab.errors import UserError, first_line, nearest
from ledger_lab.ledger import Health, PanelResult, Status
from ledger_lab.ledger.endings import status_of
from ledger_lab.training.health import Detection, Event, HealthMonitor, Iteration


class HealthEvent(Exception):  # noqa: N818 - the ledger shows this name before the reason
    """A health event that is listed in ``--stop_on`` ended the run."""


class HealthWatch:
    """Passes the figures of a training to the health monitor, and reports its findings."""

    def __init__(
        self,
        monitor: HealthMonitor,
        stop_on: Sequence[str],
        append: Callable[[Health], None],
        wall_ns: Callable[[], int],
        device_memory_bytes: Callable[[], int | None],
        console: Console,
    ) -> None:
        """Begin with nothing found.

        Args:
            monitor: Finds health events.
            stop_on: Events that end the run.
            append: Writes a row.
            wall_ns: Returns the age of the attempt [ns].
            device_memory_bytes: Returns the device memory that the process holds; ``None`` without an accelerator.
            console: Where events are printed.
        """
        self._monitor, self._stop_on = monitor, frozenset(stop_on)
        self._append, self._wall_ns, self._device_memory_bytes = append, wall_ns, device_memory_bytes
        self._console = console
        self._process = psutil.Process()
        self._iterations = 0
        self.stopped: HealthEvent | None = None
        """The event that ends the run, with its evidence."""

    def on_iteration(
        self,
        iterations: int,
        env_steps: int,
        figures: Mapping[str, float],
        phase_ns: Mapping[str, int],
        endings: Mapping[str, int] | None = None,
    ) -> None:
        """Check an iteration.

        Args:
            iterations: Iterations completed.
            env_steps: Environment steps of this iteration, over all processes.
            figures: Figures of the training, by the names of :data:`ledger_lab.ledger.FIGURES`.
            phase_ns: Nanoseconds per phase.
            endings: Training episodes that each termination ended, over all processes.
        """
        self._iterations = iterations
        seen = Iteration(
            iterations=iterations,
            env_steps=env_steps,
            figures=figures,
            phase_ns=phase_ns,
            host_memory_bytes=self._process.memory_info().rss,
            device_memory_bytes=self._device_memory_bytes(),
            endings=endings,
        )
        self._report(self._monitor.on_iteration(seen))

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Within the context, also report numbers that are not finite if a library finds them and raises an error."""
        try:
            yield
        except Exception as error:
            if status_of(error) is Status.NON_FINITE:
                self._report(self._monitor.on_failure(first_line(error)))
            raise

    def on_panel(self, result: PanelResult, iteration: int) -> None:
        """Check a held-out score.

        Args:
            result: The score.
            iteration: Iterations completed when its checkpoint was saved.
        """
        self._report(self._monitor.on_panel(result, iteration))

    def _report(self, detections: Sequence[Detection]) -> None:
        """Write detections into the journal, print them, and remember the first one that ends the run."""
        for found in detections:
            stops = found.event in self._stop_on
            self._append(
                Health(
                    event=str(found.event),
                    iteration=self._iterations,
                    wall_ns=self._wall_ns(),
                    evidence=found.evidence,
                    advice=found.advice,
                    stops=stops,
                )
            )
            self._console.print(
                f"{found.event} at iteration {self._iterations}: {found.evidence}; {found.advice}"
                f"{' (the run ends here: --stop_on)' if stops else ''}",
                style="red" if stops else "yellow",
                markup=False,
                soft_wrap=True,
            )
            if stops and self.stopped is None:
                self.stopped = HealthEvent(f"{found.event}: {found.evidence}")


def parse_stop_on(text: str) -> list[str]:
    """Read ``--stop_on``.

    Args:
        text: Names of events, separated by commas.

    Returns:
        The events that end the run. ``non_finite`` is always among them: no policy learns from NaN or infinity.

    Raises:
        UserError: If a name is not the name of an event.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [str(event) for event in Event]
    for name in names:
        if name not in known:
            raise UserError(f"--stop_on {name!r}: no such event: {nearest(name, known)} (--help explains them)")
    return [event for event in known if event in names or event == Event.NON_FINITE]


def list_health_events() -> str:
    """Return a text for ``--help`` that explains each event in a line."""
    width = max(map(len, Event)) + 1
    events = (f"    {f'{event}:':<{width}}  {event.meaning}" for event in Event)
    return "\n".join(
        ["A health event is a sign that a training goes wrong. Every event is printed and recorded.", *events]
    )
