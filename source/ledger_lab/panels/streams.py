"""A random stream for each held-out slot.

Isaac Lab draws random numbers for all environments from one global stream, so the numbers of an environment depend on
all earlier draws. Here, each held-out slot has a stream of its own, whose key comes from the episode. While
:class:`OwnDraws` is active, it replaces the rows of held-out slots in everything that torch draws: in events, commands,
actuators, sensors and the terms of a user's own task.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch.utils._python_dispatch import TorchDispatchMode

from ledger_lab.errors import UserError
from ledger_lab.panels.transfers import to_device

_MT19937_BYTES = 4 * 625
"""Size of the state of numpy's global generator: 624 words and a position."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class SlotStreams:
    """One counter-based random stream per slot.

    Each number of a stream is a hash of the stream's key and the number's position (the finalizer of SplitMix64,
    applied twice; Steele et al. 2014, OOPSLA). All slots can therefore draw at once and independently of each other.
    """

    def __init__(self, slots: int) -> None:
        """Create the streams; :meth:`restart` them before the first draw.

        Args:
            slots: Number of held-out slots.
        """
        self._keys = np.zeros(slots, dtype=np.uint64)
        self._drawn = np.zeros(slots, dtype=np.uint64)

    def restart(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Start streams from their beginning.

        Args:
            slots: Held-out slots, counted from 0; shape (n,).
            keys: Keys of the streams; shape (n,).
        """
        self._keys[slots], self._drawn[slots] = keys, 0

    def drawn(self) -> NDArray[np.uint64]:
        """Return how often each slot has drawn; shape (slots,)."""
        return self._drawn.copy()

    def go_to(self, drawn: NDArray[np.uint64]) -> None:
        """Set how often each slot has drawn, to a result of :meth:`drawn`."""
        self._drawn[:] = drawn

    def bits(self, slots: NDArray[np.int64], width: int) -> NDArray[np.uint64]:
        """Draw whole numbers of 64 random bits.

        Args:
            slots: Held-out slots, each at most once; shape (n,).
            width: Numbers per slot.

        Returns:
            Shape (n, width).
        """
        with np.errstate(over="ignore"):  # arithmetic modulo 2^64
            self._drawn[slots] += np.uint64(1)
            draw = _mix(self._keys[slots] + self._drawn[slots] * _GOLDEN)
            return _mix(draw[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN)

    def uniform(self, slots: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """Draw from the uniform distribution over [0, 1), with 24 bits, which a float32 holds exactly.

        Args:
            slots: Held-out slots, each at most once; shape (n,).
            width: Numbers per slot.

        Returns:
            Shape (n, width).
        """
        return (self.bits(slots, width) >> np.uint64(40)).astype(np.float64) * 2.0**-24

    def normal(self, slots: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """Draw from the standard normal distribution, by inversion.

        Args:
            slots: Held-out slots, each at most once; shape (n,).
            width: Numbers per slot.

        Returns:
            Shape (n, width).
        """
        share = ((self.bits(slots, width) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        return np.asarray(ndtri(share), dtype=np.float64)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return SplitMix64's finalizer."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class OwnDraws(TorchDispatchMode):
    """While active, held-out slots draw from streams of their own.

    A draw must have one row per slot. Any other draw would be shared between slots, so it is refused. A torch function
    that this class doesn't know is refused, too.
    """

    def __init__(self, streams: SlotStreams, slots: NDArray[np.int64], what: str) -> None:
        """Prepare the mode; enter it as a context to activate it.

        Args:
            streams: The streams.
            slots: The held-out slot of each row of a draw, counted from 0; -1 for a training slot.
            what: What draws the numbers, for the error message of a refused draw.
        """
        super().__init__()
        self._streams, self._what = streams, what
        self._count = len(slots)
        self._rows = np.flatnonzero(slots >= 0)
        self._slots = slots[self._rows]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let torch draw, then put the held-out slots' own numbers into their rows."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or not len(self._rows):
            return func(*args, **kwargs)
        arguments = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
        drawn: torch.Tensor
        if len(self._rows) == self._count:
            state = _torch_state()
            drawn = func(*args, **kwargs)
            _restore_torch(state)
        else:
            drawn = func(*args, **kwargs)
        if drawn.dim() == 0 or drawn.shape[0] != self._count:
            raise UserError(
                f"{self._what} draws random numbers of shape {tuple(drawn.shape)} that are shared by environments, so "
                "episodes would depend on each other: draw one row per environment"
            )
        own = self._draw(func.overloadpacket.__name__, arguments, drawn)
        drawn[to_device(self._rows, drawn)] = own
        return drawn

    def _draw(self, name: str, arguments: dict[str, Any], drawn: torch.Tensor) -> torch.Tensor:
        """Return the held-out rows of a draw; shape (rows, ...). The host does not wait for the device."""
        width = drawn[0].numel()
        shape = (len(self._slots), *drawn.shape[1:])

        def rows(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return float(value)
            if value.dim() == 0:
                return value.double()
            return value[to_device(self._rows, value)].reshape(len(self._slots), -1).double()

        def there(values: NDArray[np.float64], *parameters: Any) -> Any:
            """Return values where the parameters are: on the device if one of them is a tensor."""
            on_host = not any(isinstance(each, torch.Tensor) for each in parameters)
            return values if on_host else to_device(values, drawn)

        match name:
            case "rand" | "rand_like":
                own: Any = self._streams.uniform(self._slots, width)
            case "uniform_":
                low, high = arguments.get("from", 0.0), arguments.get("to", 1.0)
                own = low + (high - low) * self._streams.uniform(self._slots, width)
            case "randn" | "randn_like":
                own = self._streams.normal(self._slots, width)
            case "normal_" | "normal":
                mean, std = rows(arguments.get("mean", 0.0)), rows(arguments.get("std", 1.0))
                own = mean + std * there(self._streams.normal(self._slots, width), mean, std)
            case "exponential_":
                own = -np.log1p(-self._streams.uniform(self._slots, width)) / arguments.get("lambd", 1.0)
            case "bernoulli" | "bernoulli_":
                share = rows(arguments.get("p", arguments["self"] if name == "bernoulli" else 0.5))
                own = there(self._streams.uniform(self._slots, width), share) < share
            case "randint" | "randint_like" | "random_":
                low, high = _integer_range(arguments, drawn.dtype)
                own = low + (self._streams.bits(self._slots, width) % np.uint64(high - low)).astype(np.int64)
            case _:
                raise UserError(
                    f"{self._what} draws with torch.{name}, which cannot be seeded per environment: use torch.rand or "
                    "torch.randn"
                )
        own = own.reshape(shape)
        return own.to(drawn.dtype) if isinstance(own, torch.Tensor) else to_device(own, drawn, drawn.dtype)


def _integer_range(arguments: dict[str, Any], dtype: torch.dtype) -> tuple[int, int]:
    """Return the smallest integer that can be drawn, and the largest plus 1."""
    low = arguments.get("low", arguments.get("from")) or 0
    high = arguments.get("high", arguments.get("to"))
    if high is None:
        high = 2**24 if dtype.is_floating_point else torch.iinfo(dtype).max
    return int(low), int(high)


class GlobalStreams:
    """Snapshot of the global random streams of torch, numpy and Python."""

    def __init__(self) -> None:
        """Take the snapshot."""
        self._torch = _torch_state()
        self._numpy: Any = np.random.get_state()
        self._python = random.getstate()

    def to_data(self) -> dict[str, Any]:
        """Return the snapshot as plain values and tensors."""
        name, keys, *rest = self._numpy
        return {
            "torch": self._torch,
            "numpy": [name, torch.as_tensor(keys.astype(np.int64)), *rest],
            "python": self._python,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> GlobalStreams:
        """Rebuild a snapshot from the result of :meth:`to_data`; skip the stream of a GPU that is not in use here."""
        streams = cls()
        name, keys, *rest = data["numpy"]
        streams._torch = data["torch"][: len(streams._torch)]
        streams._numpy, streams._python = (name, keys.numpy().astype(np.uint32), *rest), data["python"]
        return streams

    def restore(self) -> None:
        """Restore the streams."""
        _restore_torch(self._torch)
        np.random.set_state(self._numpy)
        random.setstate(self._python)


@contextmanager
def drawing_with_torch(what: str, *, naming: bool = False) -> Iterator[None]:
    """Refuse random draws by libraries other than torch.

    Args:
        what: What draws, for the message.
        naming: Whether to say this also in refusals that come from within the context.

    Raises:
        UserError: If another library drew numbers.
    """
    watch = DrawWatch()
    try:
        yield
    except UserError as error:
        if naming:
            raise UserError(f"{what}: {error}") from error
        raise
    if others := " and ".join(name for name in watch.drawn() if name != "torch"):
        raise UserError(f"{what} draws from {others}, which cannot be seeded per environment: let it draw with torch")


class DrawWatch:
    """Detects draws from the global streams, fast enough for many checks per step.

    Taking and comparing the states of numpy and Python takes about 0.1 ms, the memory of all generators a few µs.
    """

    def __init__(self) -> None:
        """Begin; earlier draws do not count."""
        self.forget()

    def forget(self) -> None:
        """Ignore all draws until now."""
        self._memory = _generator_memory()

    def drawn(self) -> list[str]:
        """Return the libraries that have drawn random numbers since the last :meth:`forget`."""
        return [name for name, now in _generator_memory().items() if now != self._memory[name]]


def _generator_memory() -> dict[str, bytes]:
    """Return the memory of the global generators of each library; a draw of random bits changes it.

    A number that was drawn before, and is returned later (the second of a pair of normal numbers), does not.
    """
    bits, python = np.random.get_bit_generator(), random.random.__self__  # type: ignore[attr-defined]
    header = object.__basicsize__
    return {
        "torch": b"".join(each.numpy().tobytes() for each in _torch_state()),
        "numpy.random": ctypes.string_at(bits.ctypes.state_address, _MT19937_BYTES),
        "Python's random": ctypes.string_at(id(python) + header, type(python).__basicsize__ - header),
    }


def _torch_state() -> list[torch.Tensor]:
    """Return the states of torch's global streams: first of the CPU, then of the GPU in use, if one is in use.

    Isaac Lab makes the GPU of the simulation torch's current device.
    """
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else [])]


def _restore_torch(state: list[torch.Tensor]) -> None:
    """Restore the states of torch's global streams."""
    torch.set_rng_state(state[0])
    for gpu in state[1:]:
        torch.cuda.set_rng_state(gpu)
