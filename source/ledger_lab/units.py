"""Formats of figures for readers."""

from __future__ import annotations

MISSING = "–"


def duration(seconds: float | None) -> str:
    """Return a duration as ``m:ss`` or ``h:mm:ss``."""
    if seconds is None:
        return MISSING
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def in_gigabytes(size_bytes: int | None) -> float | None:
    """Return an amount of memory in GB = 10^9 bytes; ``None`` stays ``None``.

    Args:
        size_bytes: The amount [bytes].
    """
    return None if size_bytes is None else size_bytes / 1e9


def in_seconds(time_ns: int | None) -> float | None:
    """Return a duration in seconds."""
    return None if time_ns is None else time_ns / 1e9


def quantity(value: float | None) -> str:
    """Return a number with three significant digits and k, M or G."""
    if value is None:
        return MISSING
    for limit, divisor, suffix in ((1e3, 1.0, ""), (1e6, 1e3, " k"), (1e9, 1e6, " M")):
        if abs(value) < limit * 0.9995:
            return f"{value / divisor:.3g}{suffix}"
    return f"{value / 1e9:.3g} G"


def counted(number: int, thing: str) -> str:
    """Return a number of things in words, with ``s`` for several."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in percent."""
    return MISSING if share is None else f"{100 * share:.{digits}f} %"


def target_share(share: float) -> str:
    """Return a target in percent with all of its digits, such as 97.5 %."""
    return f"{100 * share:.12g} %"


def usd(amount: float | None) -> str:
    """Return an amount of money with its significant cents."""
    if amount is None:
        return MISSING
    return f"${amount:.2f}" if amount >= 0.0995 or amount == 0 else f"${amount:.2g}"


def gigabytes(amount: float | None) -> str:
    """Return an amount of memory [GB]."""
    return MISSING if amount is None else f"{amount:.1f} GB"


def energy(amount_kwh: float | None) -> str:
    """Return an amount of energy in Wh or kWh."""
    if amount_kwh is None:
        return MISSING
    return f"{amount_kwh:.3g} kWh" if amount_kwh >= 0.9995 else f"{1000 * amount_kwh:.3g} Wh"


def environments(per_process: int, processes: int) -> str:
    """Return the environments per process, with the number of processes."""
    return f"{processes} × {quantity(per_process)}" if processes > 1 else quantity(per_process)


def share_within(share: float, interval: tuple[float, float]) -> str:
    """Return a share with its interval, both in percent."""
    low, high = interval
    return f"{percent(share)} [{100 * low:.1f}, {100 * high:.1f}]"
