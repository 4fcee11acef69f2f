"""Price entries from gpuhunt's catalogs on disk. Nothing here uses a network."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import io
import logging
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ledger_lab.costs.prices import Price
from ledger_lab.errors import UserError

_LARGEST_BYTES: Final = 1_000_000_000
"""Largest table that is unpacked [B]; gpuhunt's largest tables have about 10 MB."""

_OUR_NAMES: Final = {"lambdalabs": "lambda"}
"""First part of our entries' names, by gpuhunt's name of the provider, if the two differ."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CatalogTable:
    """One provider's table of a catalog file."""

    provider: str
    """The provider, as gpuhunt names it."""
    origin: str
    """Path of the file, and the name of the table in it."""
    name: str
    """The same, without the folder of the file."""
    data: bytes
    dated: datetime.date | None
    """Day of the table, according to its archive; None if unknown."""

    @property
    def source(self) -> str:
        """Origin of the prices, so that they can be found again."""
        return f"gpuhunt catalog {self.name} (SHA-256 {hashlib.sha256(self.data).hexdigest()[:16]}…)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Offer:
    """One line of a catalog: an instance, in one place, on one market."""

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

    @property
    def accelerator(self) -> str:
        """Name of the accelerator, as our entries spell it."""
        vendor = {"nvidia": "NVIDIA", "amd": "AMD"}.get(self.vendor, self.vendor.capitalize())
        memory = "" if self.gpu_memory_gb is None else f" {self.gpu_memory_gb:g}GB"
        return f"{vendor} {self.gpu}{memory}"

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
class Billing:
    """How a provider rounds the time that it bills."""

    granularity_s: float
    minimum_s: float


def read_tables(path: Path) -> list[CatalogTable]:
    """Read the tables of a catalog file.

    Args:
        path: A table ``<provider>.csv``, or an archive ``*.zip`` of such tables, as gpuhunt publishes them.

    Raises:
        UserError: If it can't be read, or holds no tables.
    """
    try:
        if path.suffix == ".csv":
            data = path.read_bytes()
            return [CatalogTable(provider=path.stem, origin=str(path), name=path.name, data=data, dated=None)]
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".csv")]
            tables = [_member(path, archive, info) for info in members]
    except OSError as error:
        raise UserError(f"{path}: cannot read the catalog: {error.strerror}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # damaged, or packed in an unknown way
        raise UserError(f"{path}: neither a table <provider>.csv nor an archive of such: {error}") from error
    if not tables:
        raise UserError(f"{path}: the archive holds no table <provider>.csv")
    return tables


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> CatalogTable:
    """Unpack one table in memory."""
    if info.file_size > _LARGEST_BYTES:
        raise UserError(f"{path}: {info.filename} unpacks to {info.file_size / 1e9:.1f} GB, which is no catalog")
    try:
        day = datetime.date(*info.date_time[:3])
        dated = day if day.year > 1980 else None  # an archive without dates says 1980
    except ValueError:
        dated = None
    return CatalogTable(
        provider=PurePosixPath(info.filename).stem,
        origin=f"{path}:{info.filename}",
        name=f"{path.name}:{info.filename}",
        data=archive.read(info),
        dated=dated,
    )


def read_offers(table: CatalogTable) -> tuple[list[Offer], list[str]]:
    """Read a table with gpuhunt.

    Args:
        table: The table.

    Returns:
        The offers with accelerators, and gpuhunt's messages about lines that it could not read.

    Raises:
        UserError: If gpuhunt is missing, keeps no catalog of the provider on disk, or can read no line.
    """
    try:
        import gpuhunt
    except ImportError as error:
        raise UserError("reading catalogs takes gpuhunt, which is not installed: pip install gpuhunt") from error
    if not table.provider.isidentifier():
        raise UserError(f"{table.origin}: a table is named after its provider, like aws.csv")
    with tempfile.TemporaryDirectory() as folder, _said("gpuhunt") as complaints:
        Path(folder, f"{table.provider}.csv").write_bytes(table.data)
        with _environment(GPUHUNT_CATALOG_DIR=folder):
            try:
                # An empty catalog that never loads itself: it reads the folder, and nothing from the network.
                items = gpuhunt.Catalog(auto_reload=False).query(provider=table.provider)
            except (ValueError, csv.Error) as error:  # an unknown provider, one without a catalog on disk, or no text
                raise UserError(f"{table.origin}: gpuhunt reads no table of {table.provider!r}: {error}") from error
    if not items:
        said = f": {complaints[0]}" if complaints else ""
        raise UserError(f"{table.origin}: no line is one of gpuhunt's catalogs{said}")
    return [_offer(item) for item in items if item.gpu_count], complaints


def _offer(item: Any) -> Offer:  # noqa: ANN401 - gpuhunt may be missing
    """Take over one of gpuhunt's items."""
    return Offer(
        provider=item.provider,
        instance=item.instance_name,
        region=item.location,
        usd_per_hour=item.price,
        gpu=item.gpu_name or "accelerator",
        gpu_count=item.gpu_count,
        gpu_memory_gb=item.gpu_memory,
        vendor=item.gpu_vendor.value,
        cpus=item.cpu,
        memory_gb=item.memory,
        spot=item.spot,
    )


def billing_of(provider: str, known: Mapping[str, Price]) -> Billing | None:
    """Return how a provider bills, according to our own entries.

    Args:
        provider: The provider, as gpuhunt names it.
        known: Prices by instance name.

    Returns:
        The common rule of its entries; None if there is no entry, or their rules differ.
    """
    prefix = _OUR_NAMES.get(provider, provider) + "-"
    rules = {
        Billing(granularity_s=price.billing_granularity_s, minimum_s=price.billing_minimum_s)
        for name, price in known.items()
        if name.startswith(prefix)
    }
    return rules.pop() if len(rules) == 1 else None


def price_entries(
    chosen: Sequence[Offer], offers: Sequence[Offer], billing: Billing, table: CatalogTable, date: datetime.date
) -> dict[str, Price]:
    """Turn offers of one table into price entries.

    Args:
        chosen: The offers.
        offers: All offers of the table. If several offers share a name, their names are made longer, chosen or not.
        billing: How their provider bills.
        table: The table.
        date: The day of the prices.

    Returns:
        Entries by their names.

    Raises:
        UserError: If a price is not valid, or two offers of the same name differ in their price; one line that names
            file, entry and field.
    """
    names: dict[str, set[str]] = {}
    for offer in offers:
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
                billing_granularity_s=billing.granularity_s,
                billing_minimum_s=billing.minimum_s,
                source=table.source,
                date=date.isoformat(),
            )
        except ValueError as error:
            raise UserError(f"{table.origin}: {name}: {error}") from error
        other = entries.setdefault(name, price)
        if other != price:
            raise UserError(
                f"{table.origin}: {name}: usd_per_hour is both {other.usd_per_hour} and {price.usd_per_hour}: leave it "
                "out with --region, --gpu or --count"
            )
    return entries


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _said(name: str) -> Iterator[list[str]]:
    """Collect the messages of a library's loggers instead of printing them."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logger = logging.getLogger(name)
    lines: list[str] = []
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        lines += said.getvalue().splitlines()
