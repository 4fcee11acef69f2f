"""Offers and price entries from gpuhunt's catalogs on disk. Nothing here uses a network."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from ledger_lab.errors import UserError
from ledger_lab.ledger.costs.prices import Price

_OUR_NAMES: Final = {"lambdalabs": "lambda"}
"""Name of a provider in LedgerLab's entries, by gpuhunt's name of the provider, where the two names differ."""

_VENDORS: Final = {"nvidia": "NVIDIA", "amd": "AMD"}


_LARGEST: Final = 256 * 2**20
"""Unpacked size of all tables of an archive together, or of one file [B]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Offer:
    """One line of a catalog: an instance, in one region, on one market."""

    provider: str
    instance: str
    region: str
    usd_per_hour: float
    """Price of the whole instance [USD/h] as in the catalog, not checked yet."""
    gpu: str
    gpu_count: int
    gpu_memory_gb: float | None
    vendor: str
    cpus: int
    memory_gb: float
    spot: bool

    @classmethod
    def from_row(cls, provider: str, row: Mapping[str, str]) -> Offer:
        """Read a line of gpuhunt's format.

        Args:
            provider: The provider, as gpuhunt names it.
            row: Texts by the names of the columns. Old catalogs have no vendors.

        Raises:
            KeyError: If a column is missing.
            ValueError: If a number is invalid.
        """
        gpu = row["gpu_name"] or "accelerator"
        return cls(
            provider=provider,
            instance=row["instance_name"],
            region=row["location"],
            usd_per_hour=float(row["price"]),
            gpu=gpu.removeprefix("tpu-"),
            gpu_count=int(row["gpu_count"]),
            gpu_memory_gb=float(row["gpu_memory"]) if row["gpu_memory"] else None,
            vendor=row.get("gpu_vendor") or ("google" if gpu.startswith("tpu-") else "nvidia"),
            cpus=int(row["cpu"]),
            memory_gb=float(row["memory"]),
            spot=row["spot"].casefold() == "true",
        )

    @property
    def accelerator(self) -> str:
        """Name of the accelerator, as our entries spell it."""
        memory = "" if self.gpu_memory_gb is None else f" {self.gpu_memory_gb:g}GB"
        return f"{_VENDORS.get(self.vendor, self.vendor.capitalize())} {self.gpu}{memory}"

    @property
    def name(self) -> str:
        """Name of the entry: provider, instance, region, and whether the price is a spot price."""
        provider = _OUR_NAMES.get(self.provider, self.provider)
        return f"{provider}-{self.instance}@{self.region}{'-spot' if self.spot else ''}"

    @property
    def long_name(self) -> str:
        """The same with the equipment, for providers that use one name for several instances."""
        return f"{self.name}-{self.gpu_count}x{self.gpu}-{self.cpus}cpu-{self.memory_gb:g}gb"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Catalog:
    """The offers of one provider, from one table."""

    provider: str
    """The provider, as gpuhunt names it."""
    origin: str
    """Path of the file, and the name of the table in it."""
    source: str
    """Origin of the prices, so that they can be found again."""
    dated: datetime.date | None
    """Day of the table, according to its archive; None if unknown."""
    offers: tuple[Offer, ...]
    """Offers with accelerators."""
    unread: tuple[str, ...]
    """Reasons why lines could not be read."""


class Billing(NamedTuple):
    """How a provider rounds the time that it bills; None if unknown."""

    granularity_s: float | None
    minimum_s: float | None


def read_catalogs(path: Path) -> list[Catalog]:
    """Read a catalog file.

    Args:
        path: A table ``<provider>.csv``, or an archive ``*.zip`` of such tables, as gpuhunt publishes them.

    Raises:
        UserError: If the file can't be read or holds no table, or no line of a table has gpuhunt's format.
    """
    try:
        if path.is_char_device() or path.is_fifo():  # it may have no end, or no writer
            raise UserError(f"{path}: it is a device or a pipe: name a .csv file or an archive")
        if path.suffix == ".csv":
            with path.open("rb") as file:
                data = file.read(_LARGEST + 1)
            _require_size(path, max(len(data), path.stat().st_size))
            return [_catalog(path, path.name, data, None)]
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".csv")]
            _require_size(path, sum(info.file_size for info in members))  # no more is read of a member than it declares
            catalogs = [_catalog(path, info.filename, archive.read(info), _day(info)) for info in members]
    except OSError as error:
        raise UserError(f"{path}: cannot read the catalog: {error.strerror}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # damaged, or packed in an unknown way
        raise UserError(f"{path}: neither a table <provider>.csv nor an archive of such tables: {error}") from error
    if not catalogs:
        raise UserError(f"{path}: the archive has no table <provider>.csv: name an archive of gpuhunt's tables")
    return catalogs


def _require_size(path: Path, size: int) -> None:
    """Refuse what is too large for catalogs, before it is unpacked."""
    if size > _LARGEST:
        raise UserError(
            f"{path}: {size / 1e6:.0f} MB of tables are more than the {_LARGEST / 1e6:.0f} MB that are read: name the "
            "tables of fewer providers"
        )


def _day(info: zipfile.ZipInfo) -> datetime.date | None:
    """Return the day on which a file of an archive was written; an archive without dates says 1980."""
    try:
        day = datetime.date(*info.date_time[:3])
    except ValueError:
        return None
    return day if day.year > 1980 else None


def _rows(reader: csv.DictReader[str], origin: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table; refuse a file that is not valid CSV."""
    try:
        yield from reader
    except csv.Error as error:
        raise UserError(f"{origin}: not a table: line {reader.line_num}: {error}") from error


def _catalog(path: Path, table: str, data: bytes, dated: datetime.date | None) -> Catalog:
    """Read one table."""
    inner = "" if table == path.name else f":{table}"
    origin, provider = f"{path}{inner}", PurePosixPath(table).stem
    try:
        reader = csv.DictReader(io.StringIO(data.decode(), newline=""))
    except UnicodeDecodeError as error:
        raise UserError(f"{origin}: not a table: {error}") from error
    offers: list[Offer] = []
    unread: list[str] = []
    for row in _rows(reader, origin):
        try:
            offers.append(Offer.from_row(provider, row))
        except KeyError as error:
            unread.append(f"line {reader.line_num} has no {error.args[0]}")
        except (TypeError, ValueError) as error:  # a line that ends early has None for texts
            unread.append(f"line {reader.line_num}: {error}")
    if not offers:
        said = f": {unread[0]}" if unread else ""
        raise UserError(f"{origin}: no line has the format of gpuhunt's tables{said}")
    return Catalog(
        provider=provider,
        origin=origin,
        source=f"gpuhunt catalog {path.name}{inner} (SHA-256 {hashlib.sha256(data).hexdigest()[:16]}…)",
        dated=dated,
        offers=tuple(offer for offer in offers if offer.gpu_count),
        unread=tuple(unread),
    )


def billing_of(provider: str, known: Mapping[str, Price]) -> Billing:
    """Return how a provider bills, according to the entries of config/prices.toml.

    Args:
        provider: The provider, as gpuhunt names it.
        known: Prices by instance name.

    Returns:
        The rule of its entries. Both fields are None if the provider has no entry, or its entries have different rules.
    """
    prefix = _OUR_NAMES.get(provider, provider) + "-"
    rules = {
        Billing(price.billing_granularity_s, price.billing_minimum_s)
        for name, price in known.items()
        if name.startswith(prefix)
    }
    return rules.pop() if len(rules) == 1 else Billing(None, None)


def price_entries(
    catalog: Catalog, chosen: Sequence[Offer], granularity_s: float, minimum_s: float, date: datetime.date
) -> dict[str, Price]:
    """Turn offers of one catalog into price entries.

    Args:
        catalog: The catalog. Offers that share a name get longer names, even if only one of them is chosen.
        chosen: The offers.
        granularity_s: Billed time is rounded up to a multiple of this [s].
        minimum_s: Smallest billed time [s].
        date: The day of the prices.

    Returns:
        Entries by their names.

    Raises:
        UserError: If a price is not valid, or two offers of the same name differ in their price; one line that names
            file, entry and field.
    """
    names: dict[str, set[str]] = {}
    for offer in catalog.offers:
        names.setdefault(offer.name, set()).add(offer.long_name)
    entries: dict[str, Price] = {}
    for offer in chosen:
        name = offer.name if len(names[offer.name]) == 1 else offer.long_name
        try:
            price = Price(
                instance=name,
                market="spot" if offer.spot else "on-demand",
                accelerators=offer.gpu_count,
                accelerator=offer.accelerator,
                region=offer.region,
                usd_per_hour=offer.usd_per_hour,
                billing_granularity_s=granularity_s,
                billing_minimum_s=minimum_s,
                source=catalog.source,
                date=date.isoformat(),
            )
        except ValueError as error:
            raise UserError(f"{catalog.origin}: {name}: {error}") from error
        other = entries.setdefault(name, price)
        if other != price:
            raise UserError(
                f"{catalog.origin}: {name}: usd_per_hour is both {other.usd_per_hour} and {price.usd_per_hour}: leave "
                "it out with --region, --gpu or --count"
            )
    return entries
