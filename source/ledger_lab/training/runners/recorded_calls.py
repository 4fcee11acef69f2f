"""Replaces attributes of a library for a while: to record values, to divide functions, to bear lost event files."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch

if TYPE_CHECKING:
    from ledger_lab.ledger.meters.phases import Phase, PhaseClock

_WRITERS = ("tensorboard.summary.writer.record_writer", "tensorboardX.record_writer")
"""Modules of the two packages whose ``RecordWriter`` writes TensorBoard files."""


@contextmanager
def replaced(owner: Any, **attributes: Any) -> Iterator[None]:  # noqa: ANN401 - a module, a class or an object
    """Replace attributes of a module, a class or an object inside the context.

    Args:
        owner: The module, class or object.
        attributes: The new values by name.
    """
    originals = {name: getattr(owner, name) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in originals.items():
            setattr(owner, name, value)


@contextmanager
def recorded_calls(owner: Any, name: str, value: Callable[..., Any] = lambda result, *_: result) -> Iterator[list[Any]]:
    """Record every call of a function inside the context.

    For example, ``recorded_calls(torch.nn.utils, "clip_grad_norm_")`` records gradient norms before clipping.

    Args:
        owner: Module or object in which the library looks up the function.
        name: Name of the function.
        value: Returns what is recorded, from the result and the positional arguments of a call.

    Yields:
        The recorded values; the reader empties the list.
    """
    recorded: list[Any] = []
    function = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        result = function(*args, **kwargs)
        recorded.append(value(result, *args))
        return result

    with replaced(owner, **{name: call}):
        yield recorded


@contextmanager
def phase_until_call(clock: PhaseClock, phase: Phase, owner: Any, name: str) -> Iterator[None]:  # noqa: ANN401 - see above
    """Count the time for a phase until a function is called, or until the context ends.

    So one function of a library can be divided into two phases: its first part ends where it first calls another
    function.

    Args:
        clock: The clock.
        phase: The phase.
        owner: Module or object in which the library looks up the function.
        name: Name of the function.
    """
    function, counting = getattr(owner, name), True

    def end() -> None:
        nonlocal counting
        if counting:
            counting = False
            clock.close()

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        end()
        return function(*args, **kwargs)

    clock.open(phase)
    with replaced(owner, **{name: call}):
        try:
            yield
        finally:
            end()


def largest_norm(norms: list[torch.Tensor], scaler: torch.amp.GradScaler | None = None) -> torch.Tensor | None:
    """Return the largest recorded gradient norm, and empty the list.

    Args:
        norms: The norms.
        scaler: The library's gradient scaler. It tries larger and larger loss scales, and skips a step whose gradients
            exceed half precision; norms of skipped steps, which are not finite, are left out.

    Returns:
        A scalar; ``None`` if no norm is left.
    """
    if not norms:
        return None
    found = torch.stack(norms)
    norms.clear()
    if scaler is not None and scaler.is_enabled():
        found = found[found.isfinite()]
    return found.max() if len(found) else None


def episode_means(returns: Sequence[float], lengths: Sequence[float]) -> dict[str, float]:
    """Return the figures of recent episodes; empty before the first one has ended.

    Args:
        returns: Returns of the episodes.
        lengths: Their lengths in steps.
    """
    if not returns:
        return {}
    return {"mean_return": sum(returns) / len(returns), "mean_episode_steps": sum(lengths) / len(lengths)}


@contextmanager
def lossy_event_files(on_loss: Callable[[OSError], None]) -> Iterator[None]:
    """Drop the figures that can't be written into TensorBoard files, which are copies of those in the journal.

    Otherwise, the error would end the training, or with tensorboardX, whose thread it ends, the training would wait for
    ever. After an error, the rest of the file is dropped, because readers stop at an incomplete record.

    Args:
        on_loss: Called with the first error of each file.
    """
    import tensorboard.summary.writer.record_writer  # noqa: F401 - RSL-RL imports it only when it trains

    failed: WeakSet[Any] = WeakSet()

    def lossy(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def call(writer: Any, *arguments: Any) -> None:  # noqa: ANN401 - a writer of either package
            if writer in failed:
                return
            try:
                original(writer, *arguments)
            except OSError as error:
                failed.add(writer)
                on_loss(error)

        return call

    with ExitStack() as stack:
        for each in (sys.modules[name].RecordWriter for name in _WRITERS if name in sys.modules):
            calls = {name: lossy(getattr(each, name)) for name in ("write", "flush", "close")}
            stack.enter_context(replaced(each, **calls))
        yield
