"""``scripts/import_prices.py``: turns gpuhunt's catalogs on disk into a price file, without torch and Isaac Lab."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger.costs import Price, load_prices, price_file
from ledger_lab.ledger.costs.catalogs import Catalog, Offer, billing_of, price_entries, read_catalogs
from ledger_lab.reports.terminal.console import make_console, write_new
from ledger_lab.reports.terminal.flags import Program
from ledger_lab.reports.terminal.request import FlagGroup, Request, flag

_OFFERS = FlagGroup("which offers to take (default: all offers with a GPU)")
_FACTS = FlagGroup("what the catalog does not say")


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
        description="Write a price file from catalogs of cloud prices. train.py and report.py read the price file with "
        "--prices. A catalog is a file of the tool gpuhunt: a table PROVIDER.csv, or a catalog.zip of such tables. The "
        "program reads files on your disk and does not use the network. The name of an entry is made of provider, "
        "machine type and region, and ends in -spot for a spot price. Each entry records the catalog and the day of "
        "the price.",
        terms=("instance",),
        examples=(
            "import_prices.py catalog.zip --gpu H100 --region us-east-1 --output my_prices.toml",
            "train.py --prices my_prices.toml --instance aws-p5.48xlarge@us-east-1",
            "report.py --prices my_prices.toml --instance aws-p5.48xlarge@us-east-1-spot",
        ),
    )

    catalogs: tuple[Path, ...] = flag(
        MISSING, "Catalog: a table (.csv) or an archive of tables (.zip).", metavar="CATALOG", positional=True
    )
    output: Path | None = flag(None, "File to write, which must not exist (default: standard output).", metavar="FILE")
    provider: tuple[str, ...] = flag(
        (), "Take only offers of this provider. Can be repeated.", group=_OFFERS, metavar="NAME"
    )
    gpu: tuple[str, ...] = flag(
        (), "Take only offers with this GPU, for example H100. Can be repeated.", group=_OFFERS, metavar="NAME"
    )
    count: tuple[int, ...] = flag(
        (), "Take only offers with this number of GPUs. Can be repeated.", group=_OFFERS, metavar="N"
    )
    region: tuple[str, ...] = flag(
        (), "Take only offers in this region. Can be repeated.", group=_OFFERS, metavar="NAME"
    )
    spot: bool = flag(False, "Take only spot prices (default: spot and on-demand prices).", group=_OFFERS)
    on_demand: bool = flag(False, "Take only on-demand prices (default: spot and on-demand prices).", group=_OFFERS)
    date: datetime.date | None = flag(
        None,
        "Day of the prices (default: the day in the archive). Required for a .csv file.",
        group=_FACTS,
        metavar="YYYY-MM-DD",
        parse=_day,
    )
    billing_granularity_s: float | None = flag(
        None,
        "Billed time is rounded up to a multiple of S [s] (default: as in config/prices.toml for the provider).",
        group=_FACTS,
        metavar="S",
    )
    billing_minimum_s: float | None = flag(
        None,
        "Shortest time that is billed [s] (default: as in config/prices.toml for the provider).",
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
            raise UserError(f"{catalog.origin} is named twice: name it once")
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
            raise UserError(f"{catalog.origin}: {twice} is also in another catalog: import only one of the two")
        prices |= entries
    if not prices:
        raise UserError(f"none of {len(offers)} offers with an accelerator matches all flags: leave out a flag")
    _write(prices, request.output)
    return 0


def _require_known(flag: str, asked: Sequence[str], known: set[str]) -> None:
    """Refuse names that no catalog has."""
    for name in asked:
        if name.casefold() not in _folded(known):
            raise UserError(f"{flag} {name}: no catalog has it: {nearest(name, known)}")


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
        f"use one: --prices {shlex.quote(str(output))} --instance {shlex.quote(name)}",
        sep="\n",
        soft_wrap=True,
    )
