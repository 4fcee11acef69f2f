"""Prices of compute instances: dated, sourced, and copied into the run that they price."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.files import config_root

LOCAL: Final = "local"
"""Instance whose price a run gets if the user names no instance."""

OWNED: Final = "owned"
"""Market of hardware that the user owns: the price per hour follows from the purchase price."""

_PRICED: Final = ("usd_per_hour", "source", "date")
_LISTED: Final = (*_PRICED, "accelerator", "region")
_FIELDS_OF_MARKET: Final[Mapping[str, tuple[str, ...]]] = {
    "on-demand": _LISTED,
    "spot": _LISTED,
    "reserved": _LISTED,
    "custom": _PRICED,
    OWNED: ("purchase_usd", "lifetime_years", "utilization", "usd_per_kwh", "source", "date"),
    "unpriced": (),
}
"""Required fields by market, in addition to the fields of every entry."""

_OWNED_ONLY: Final = ("purchase_usd", "lifetime_years", "utilization", "usd_per_kwh", "power_w")
"""Fields of hardware that the user owns."""

_HOURS_PER_YEAR: Final = 365.25 * 24

LARGEST: Final = 1e15
"""Largest number in a price: sums and products of such numbers are finite."""

_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
_Number = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
_Positive = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What one instance costs per hour, with the source and date of the price.

    Raises:
        ValueError: If a field has the wrong type or range, or does not fit the market. The message starts with the
            name of the field.
    """

    instance: _Text
    """Name of the instance, as given to ``--instance``."""

    market: Literal["on-demand", "spot", "reserved", "custom", "owned", "unpriced"]
    """``on-demand``, ``spot``, ``reserved``, ``custom`` (a rate that the user gives), ``owned`` (hardware that the user
    owns), or ``unpriced``."""

    accelerators: Annotated[int, msgspec.Meta(ge=1, le=int(LARGEST))]
    """Accelerators of one instance, all included in :attr:`usd_per_hour`."""

    billing_granularity_s: Annotated[float, msgspec.Meta(ge=1e-6, le=LARGEST)]
    """Billed time is rounded up to a multiple of this [s]."""

    billing_minimum_s: _Number
    """Smallest billed time of an attempt [s]."""

    usd_per_hour: _Number | None = None
    """Price of the whole instance [USD/h]; None exactly when the market is ``unpriced``. Hardware that the user owns
    costs ``purchase_usd / (lifetime_years * 8766 * utilization)``: its purchase price, spread over the hours in which
    it works."""

    accelerator: _Text | None = None
    """Name of the accelerator; None when unknown."""

    region: _Text | None = None
    """Region that the price holds for; None when unknown."""

    source: _Text | None = None
    """Where the price was read; None when unpriced."""

    date: Annotated[str, msgspec.Meta(pattern=r"\A\d{4}-\d{2}-\d{2}\Z")] | None = None
    """Day of the price, as ``YYYY-MM-DD``; None when unpriced."""

    note: _Text | None = None
    """Remark for the reader."""

    purchase_usd: _Number | None = None
    """Purchase price of hardware that the user owns [USD]; None on any other market, like the four fields below."""

    lifetime_years: _Positive | None = None
    """Years until it is worth nothing."""

    utilization: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """Share of these years in which its accelerators work, in (0, 1]."""

    usd_per_kwh: _Number | None = None
    """Price of energy [USD/kWh]; include cooling if it should count."""

    power_w: _Number | None = None
    """Power of the whole instance at work [W], for attempts whose energy was not measured. If it is None, the runs of
    such attempts have no cost."""

    def __post_init__(self) -> None:
        """Check that the fields fit the market, and derive the price per hour of hardware that the user owns."""
        if self.date is not None:
            datetime.date.fromisoformat(self.date)
        for name in _FIELDS_OF_MARKET[self.market]:
            if getattr(self, name) is None:
                raise ValueError(f"{name} is missing; a price of market {self.market!r} needs it")
        foreign = () if self.market == OWNED else _OWNED_ONLY
        for name in (*foreign, "usd_per_hour") if self.market == "unpriced" else foreign:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} contradicts market = {self.market!r}")
        if self.purchase_usd is not None and self.lifetime_years is not None and self.utilization is not None:
            usd_per_hour = self.purchase_usd / max(self.lifetime_years * _HOURS_PER_YEAR * self.utilization, 1e-300)
            check_number("purchase_usd per hour of work", usd_per_hour, LARGEST)
            if self.usd_per_hour is not None and not math.isclose(self.usd_per_hour, usd_per_hour, rel_tol=1e-9):
                raise ValueError("usd_per_hour contradicts purchase_usd, lifetime_years and utilization: leave it out")
            object.__setattr__(self, "usd_per_hour", usd_per_hour)

    def to_dict(self) -> dict[str, str | int | float | None]:
        """Return all fields as plain values, for the run's declaration row."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Price:
        """Rebuild a price from :meth:`to_dict`, or a table of a price file.

        Args:
            data: Field names and values; fields that may be None may be left out.

        Raises:
            ValueError: If a field is unknown or missing, or has the wrong type or range. The message names the field.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name, value in data.items():
            if name not in known:
                # `[instances.aws-p5.48xlarge]` without quotes is a table `48xlarge` inside an entry `aws-p5`.
                hint = "quote instance names that contain a dot" if isinstance(value, dict) else nearest(name, known)
                raise ValueError(f"{name} is an unknown field; {hint}")
        return msgspec.convert(data, cls)


def load_prices(path: Path | None = None) -> dict[str, Price]:
    """Read the price file.

    Args:
        path: TOML file with one table ``[instances.<name>]`` per instance; default ``config/prices.toml``.

    Returns:
        Prices by instance name, in the order of the file.

    Raises:
        UserError: If the file cannot be read, is not TOML, or an entry is wrong; one line that names file, entry and
            field.
    """
    path = config_root() / "prices.toml" if path is None else path
    try:
        document = read_toml(path)
    except OSError as error:
        raise UserError(f"{path}: cannot read the price file: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: not a TOML file: {error}") from error
    for key in document:
        if key != "instances":
            raise UserError(f"{path}: unknown key {key!r}; entries are tables named [instances.<name>]")
    tables = document.get("instances")
    if not isinstance(tables, dict) or not tables:
        raise UserError(f"{path}: no entries; add tables named [instances.<name>]")
    return {name: _price_from_table(path, name, table) for name, table in tables.items()}


def load_price_book(own: Path | None) -> dict[str, Price]:
    """Read config/prices.toml, and a user's price file, whose entries replace entries of the same name.

    Args:
        own: The user's price file; None to read only config/prices.toml.

    Returns:
        Prices by instance name.

    Raises:
        UserError: See :func:`load_prices`.
    """
    return load_prices() | ({} if own is None else load_prices(own))


def resolve_price(
    instance: str | None, usd_per_hour: float | None, prices: Mapping[str, Price], *, today: datetime.date
) -> Price:
    """Find the price that the flags ``--instance`` and ``--usd_per_hour`` ask for.

    Args:
        instance: Name of an entry; None means ``local``.
        usd_per_hour: Price that replaces that of the entry [USD/h]. Like the entry's price, it covers all accelerators
            of the instance; for ``local``, it is the price of one accelerator. None keeps the price of the entry.
        prices: Known prices by instance name.
        today: Day on which the flag was given, the date of an overriding price.

    Raises:
        UserError: If the instance is unknown, or the price is negative or not finite.
    """
    name = LOCAL if instance is None else instance
    if name not in prices:
        raise UserError(f"--instance: unknown instance {name!r}; {nearest(name, prices)}")
    if usd_per_hour is None:
        return prices[name]
    try:
        check_number("--usd_per_hour", usd_per_hour, LARGEST)
    except ValueError as error:
        raise UserError(str(error)) from error
    return dataclasses.replace(
        prices[name],
        usd_per_hour=usd_per_hour,
        market="custom",
        source="--usd_per_hour",
        date=today.isoformat(),
        note=None,
        purchase_usd=None,
        lifetime_years=None,
        utilization=None,
        usd_per_kwh=None,
        power_w=None,
    )


def check_number(name: str, value: object, most: float = math.inf) -> None:
    """Refuse a value that is not a finite number of at least 0.

    Args:
        name: What it is.
        value: The number.
        most: The largest one.

    Raises:
        ValueError: With a message that starts with ``name``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
    if value > most:
        raise ValueError(f"{name} must be at most {most:g}")


def _price_from_table(path: Path, name: str, table: object) -> Price:
    """Turn one TOML table into a price, with errors that name file, entry and field."""
    try:
        if not isinstance(table, dict):
            raise ValueError(f"an entry is a table of fields, not {table!r}")
        if "instance" in table:
            raise ValueError("instance is an unknown field; the name of the table names the instance")
        return Price.from_dict({"instance": name, **table})
    except ValueError as error:
        raise UserError(f'{path}: [instances."{name}"]: {error}') from error
