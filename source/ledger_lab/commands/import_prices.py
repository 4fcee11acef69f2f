"""``scripts/import_prices.py``: turns gpuhunt's catalogs on disk into a price file, without torch and Isaac Lab."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ledger_lab.costs import Price, load_prices, price_file
from ledger_lab.costs.catalogs import Catalog, Offer, billing_of, price_entries, read_catalogs
from ledger_lab.errors import UserError, nearest
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.flags import Program


def import_prices_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/import_prices.py``."""
    parser = Program(
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
    ).parser()
    parser.add_argument(
        "catalogs",
        nargs="+",
        type=Path,
        metavar="CATALOG",
        help="Catalog: a table (.csv) or an archive of tables (.zip).",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=None,
        metavar="FILE",
        help="File to write, which must not exist (default: standard output).",
    )
    which = parser.add_argument_group("which offers to take (default: all offers with a GPU)")
    which.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="NAME",
        help="Take only offers of this provider. Can be repeated.",
    )
    which.add_argument(
        "--gpu",
        action="append",
        default=[],
        metavar="NAME",
        help="Take only offers with this GPU, for example H100. Can be repeated.",
    )
    which.add_argument(
        "--count",
        action="append",
        default=[],
        type=int,
        metavar="N",
        help="Take only offers with this number of GPUs. Can be repeated.",
    )
    which.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="NAME",
        help="Take only offers in this region. Can be repeated.",
    )
    market = which.add_mutually_exclusive_group()
    market.add_argument(
        "--spot", action="store_true", help="Take only spot prices (default: spot and on-demand prices)."
    )
    market.add_argument(
        "--on_demand", action="store_true", help="Take only on-demand prices (default: spot and on-demand prices)."
    )
    entry = parser.add_argument_group("what the catalog does not say")
    entry.add_argument(
        "--date",
        type=_day,
        default=None,
        metavar="YYYY-MM-DD",
        help="Day of the prices (default: the day in the archive). Required for a .csv file.",
    )
    entry.add_argument(
        "--billing_granularity_s",
        type=float,
        default=None,
        metavar="S",
        help="Billed time is rounded up to a multiple of S [s] (default: as in config/prices.toml for the provider).",
    )
    entry.add_argument(
        "--billing_minimum_s",
        type=float,
        default=None,
        metavar="S",
        help="Shortest time that is billed [s] (default: as in config/prices.toml for the provider).",
    )
    return parser


def import_prices(argv: Sequence[str]) -> int:
    """Write the price file.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a catalog can't be read, no offer matches, or the file can't be written.
    """
    args = import_prices_parser().parse_args(argv)
    catalogs = [catalog for path in args.catalogs for catalog in read_catalogs(path)]
    origins = [catalog.origin for catalog in catalogs]
    for catalog in catalogs:
        if origins.count(catalog.origin) > 1:
            raise UserError(f"{catalog.origin} is named twice: name it once")
        if catalog.unread:
            count = len(catalog.unread)
            left_out = f"{catalog.origin}: {count} lines left out, the first: {catalog.unread[0]}"
            make_console(sys.stderr).print(left_out, soft_wrap=True)
    _require_known("--provider", args.provider, {catalog.provider for catalog in catalogs})
    catalogs = [catalog for catalog in catalogs if not args.provider or catalog.provider in _folded(args.provider)]
    offers = [offer for catalog in catalogs for offer in catalog.offers]
    _require_known("--gpu", args.gpu, {offer.gpu for offer in offers})
    _require_known("--region", args.region, {offer.region for offer in offers})
    ours = load_prices()
    prices: dict[str, Price] = {}
    for catalog in catalogs:
        chosen = [offer for offer in catalog.offers if _is_chosen(offer, args)]
        if not chosen:
            continue
        entries = price_entries(catalog, chosen, *_billing(catalog, args, ours), _date(catalog, args.date))
        twice = next((name for name in entries if name in prices), None)
        if twice is not None:
            raise UserError(f"{catalog.origin}: {twice} is also in another catalog: import only one of the two")
        prices |= entries
    if not prices:
        raise UserError(f"none of {len(offers)} offers with an accelerator matches all flags: leave out a flag")
    _write(prices, args.output)
    return 0


def _is_chosen(offer: Offer, args: argparse.Namespace) -> bool:
    """Tell whether an offer matches the flags."""
    return (
        (not args.gpu or offer.gpu.casefold() in _folded(args.gpu))
        and (not args.region or offer.region.casefold() in _folded(args.region))
        and (not args.count or offer.gpu_count in args.count)
        and (offer.spot or not args.spot)
        and not (offer.spot and args.on_demand)
    )


def _require_known(flag: str, asked: Sequence[str], known: set[str]) -> None:
    """Refuse names that no catalog has."""
    for name in asked:
        if name.casefold() not in _folded(known):
            raise UserError(f"{flag} {name}: no catalog has it: {nearest(name, known)}")


def _folded(names: Iterable[str]) -> set[str]:
    """Return names in a form that ignores upper and lower case."""
    return {name.casefold() for name in names}


def _billing(catalog: Catalog, args: argparse.Namespace, ours: Mapping[str, Price]) -> tuple[float, float]:
    """Return the granularity and the minimum [s] by which the provider of a catalog bills."""
    known = billing_of(catalog.provider, ours)
    granularity_s = known.granularity_s if args.billing_granularity_s is None else args.billing_granularity_s
    minimum_s = known.minimum_s if args.billing_minimum_s is None else args.billing_minimum_s
    if granularity_s is None or minimum_s is None:
        raise UserError(
            f"{catalog.origin}: config/prices.toml doesn't say how {catalog.provider} bills: give "
            "--billing_granularity_s and --billing_minimum_s"
        )
    return granularity_s, minimum_s


def _date(catalog: Catalog, asked: datetime.date | None) -> datetime.date:
    """Return the day of a catalog's prices."""
    date = asked or catalog.dated
    if date is None:
        raise UserError(f"{catalog.origin}: the table has no date: give the day of its prices with --date YYYY-MM-DD")
    return date


def _write(prices: Mapping[str, Price], output: Path | None) -> None:
    """Write the entries, and print how to use them."""
    text = price_file(prices, "Prices of instances, imported from gpuhunt's catalogs by scripts/import_prices.py.")
    if output is None:
        print(text, end="")
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UserError(f"--output {output}: the file exists: remove it, or name another file") from error
    except OSError as error:
        raise UserError(f"--output {output}: cannot write: {error.strerror}") from error
    spot = sum(price.market == "spot" for price in prices.values())
    name = next(iter(prices))
    make_console().print(
        f"{len(prices)} prices, {len(prices) - spot} on-demand and {spot} spot, in {output}",
        f"use one: --prices {output} --instance {name}",
        sep="\n",
        soft_wrap=True,
    )


def _day(text: str) -> datetime.date:
    """Parse a calendar day.

    Raises:
        argparse.ArgumentTypeError: If the text is not a calendar day.
    """
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be YYYY-MM-DD, not {text!r}") from error
