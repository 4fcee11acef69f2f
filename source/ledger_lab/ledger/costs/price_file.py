"""Writing price files."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_lab.documents import toml_value
from ledger_lab.ledger.costs.prices import Price


def price_file(prices: Mapping[str, Price], comment: str) -> str:
    """Return the text of a price file, which :func:`ledger_lab.ledger.costs.load_prices` reads.

    Args:
        prices: Entries by instance name.
        comment: One line for its head.
    """
    tables = [f"# {' '.join(comment.split())}"]
    for name, price in prices.items():
        fields = {key: value for key, value in price.to_dict().items() if key != "instance" and value is not None}
        lines = [f"{key} = {toml_value(value)}" for key, value in fields.items()]
        tables.append("\n".join([f"[instances.{toml_value(name)}]", *lines]))
    return "\n\n".join(tables) + "\n"
