"""``scripts/import_prices.py``: turns gpuhunt's catalogs on disk into a price file, without torch and Isaac Lab."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from ledger_lab.costs import Price, load_prices, price_file
from ledger_lab.costs.catalogs import Catalog, Offer, billing_of, price_entries, read_catalogs
from ledger_lab.errors import UserError, nearest
from ledger_lab.terminal.console import make_console, write_new
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.request import FlagGroup, Request, flag

_OFFERS = FlagGroup("offers to take (default: all with accelerators)")
_FACTS = FlagGroup("facts that the catalog lacks")


def _day(text: str) -> datetime.date:
    """Parse a calendar day.

    Raises:
        argparse.ArgumentTypeError: If the text is not a calendar day.
    """
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be YYYY-MM-DD, not {text!r}") from error


@dataclass(frozen=True, kw_only=True)
class ImportRequest(Request):
    """What a user asks of ``scripts/import_prices.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="import_prices.py",
        description="Turn price catalogs of gpuhunt into a price file, which train.py and report.py read. A catalog "
        "is a table <provider>.csv on your disk, or a catalog.zip of such tables; no network is used. Each entry is "
        "named after provider, instance and region; names of spot prices end in -spot. Each entry states its file and "
        "the day of its price.",
        examples=(
            "import_prices.py catalog.zip --gpu H100 --region us-east-1 --output my_prices.toml",
            "train.py --prices my_prices.toml --instance aws-p5.48xlarge@us-east-1",
            "report.py --prices my_prices.toml --instance aws-p5.48xlarge@us-east-1-spot",
        ),
    )

    catalogs: tuple[Path, ...] = flag(MISSING, "Tables (.csv) or archives (.zip).", metavar="CATALOG", positional=True)
    output: Path | None = flag(None, "New file to write (default: standard output).", metavar="FILE")
    provider: tuple[str, ...] = flag((), "Only this provider. Can be repeated.", group=_OFFERS, metavar="NAME")
    gpu: tuple[str, ...] = flag((), "Only this GPU, such as H100. Can be repeated.", group=_OFFERS, metavar="NAME")
    count: tuple[int, ...] = flag(
        (), "Only instances with this number of GPUs. Can be repeated.", group=_OFFERS, metavar="N"
    )
    region: tuple[str, ...] = flag((), "Only this region. Can be repeated.", group=_OFFERS, metavar="NAME")
    spot: bool = flag(False, "Only spot prices (default: spot and on-demand).", group=_OFFERS)
    on_demand: bool = flag(False, "Only on-demand prices.", group=_OFFERS)
    date: datetime.date | None = flag(
        None,
        "Day of the prices (default: the day in the archive; required for a .csv).",
        group=_FACTS,
        metavar="YYYY-MM-DD",
        parse=_day,
    )
    billing_granularity_s: float | None = flag(
        None,
        "Round billed time up to a multiple of this [s] (default: as for the provider in config/prices.toml).",
        group=_FACTS,
        metavar="S",
    )
    billing_minimum_s: float | None = flag(
        None,
        "Smallest billed time [s] (default: as for the provider in config/prices.toml).",
        group=_FACTS,
        metavar="S",
    )

    def __post_init__(self) -> None:
        """Refuse flags that exclude each other."""
        self.require_at_most_one("spot", "on_demand")

    def takes(self, offer: Offer) -> bool:
        """Tell whether an offer matches the flags."""
        return (
            (not self.gpu or offer.gpu.casefold() in _folded(self.gpu))
            and (not self.region or offer.region.casefold() in _folded(self.region))
            and (not self.count or offer.gpu_count in self.count)
            and not (self.on_demand if offer.spot else self.spot)
        )

    def billing(self, catalog: Catalog, ours: Mapping[str, Price]) -> tuple[float, float]:
        """Return the granularity and the minimum [s] by which the provider of a catalog bills."""
        known_s, least_s = billing_of(catalog.provider, ours)
        granularity_s = known_s if self.billing_granularity_s is None else self.billing_granularity_s
        minimum_s = least_s if self.billing_minimum_s is None else self.billing_minimum_s
        if granularity_s is None or minimum_s is None:
            raise UserError(
                f"{catalog.origin}: config/prices.toml doesn't say how {catalog.provider} bills: give "
                "--billing_granularity_s and --billing_minimum_s"
            )
        return granularity_s, minimum_s


def import_prices(argv: Sequence[str]) -> int:
    """Write the price file.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a catalog can't be read, no offer matches, or the file can't be written.
    """
    request = ImportRequest.parse(argv)
    catalogs = [catalog for path in request.catalogs for catalog in read_catalogs(path)]
    origins = [catalog.origin for catalog in catalogs]
    for catalog in catalogs:
        if origins.count(catalog.origin) > 1:
            raise UserError(f"{catalog.origin} is named twice")
        if catalog.unread:
            count = len(catalog.unread)
            left_out = f"{catalog.origin}: {count} lines left out, the first: {catalog.unread[0]}"
            make_console(sys.stderr).print(left_out, soft_wrap=True)
    _require_known("--provider", request.provider, {catalog.provider for catalog in catalogs})
    catalogs = [
        catalog for catalog in catalogs if not request.provider or catalog.provider in _folded(request.provider)
    ]
    offers = [offer for catalog in catalogs for offer in catalog.offers]
    _require_known("--gpu", request.gpu, {offer.gpu for offer in offers})
    _require_known("--region", request.region, {offer.region for offer in offers})
    ours = load_prices()
    prices: dict[str, Price] = {}
    for catalog in catalogs:
        chosen = [offer for offer in catalog.offers if request.takes(offer)]
        if not chosen:
            continue
        billing = request.billing(catalog, ours)
        if (date := request.date or catalog.dated) is None:
            raise UserError(
                f"{catalog.origin}: the table has no date: give the day of its prices with --date YYYY-MM-DD"
            )
        entries = price_entries(catalog, chosen, *billing, date)
        twice = next((name for name in entries if name in prices), None)
        if twice is not None:
            raise UserError(f"{catalog.origin}: {twice} is in another of the catalogs, too: import one of them")
        prices |= entries
    if not prices:
        raise UserError(f"none of {len(offers)} offers with accelerators matches: leave out a flag")
    _write(prices, request.output)
    return 0


def _require_known(flag: str, asked: Sequence[str], known: set[str]) -> None:
    """Refuse names that no catalog has."""
    for name in asked:
        if name.casefold() not in _folded(known):
            raise UserError(f"{flag} {name}: in none of the catalogs; {nearest(name, known)}")


def _folded(names: Iterable[str]) -> set[str]:
    """Return names in a form that ignores upper and lower case."""
    return {name.casefold() for name in names}


def _write(prices: Mapping[str, Price], output: Path | None) -> None:
    """Write the entries, and print how to use them."""
    text = price_file(prices, "Prices of instances, imported from gpuhunt's catalogs by scripts/import_prices.py.")
    if output is None:
        print(text, end="")
        return
    write_new(output, text)
    spot = sum(price.market == "spot" for price in prices.values())
    name = next(iter(prices))
    make_console().print(
        f"{len(prices)} prices, {len(prices) - spot} on-demand and {spot} spot, in {output}",
        f"use one: --prices {output} --instance {name}",
        sep="\n",
        soft_wrap=True,
    )
