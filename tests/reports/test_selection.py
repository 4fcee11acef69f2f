"""Runs at a price that a user asks for: the report names that price and the declared prices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from tests.fakes.ledgers import priced, write_run

OWN = """
[instances.mine]
market = "owned"
accelerators = 1
accelerator = "NVIDIA RTX 4090 24GB"
purchase_usd = 43830
lifetime_years = 5
utilization = 1.0
usd_per_kwh = 0.36
power_w = 10_000
billing_granularity_s = 1
billing_minimum_s = 0
source = "invoice 123"
date = "2026-02-03"
"""
"""1 USD an hour, and 3.60 USD of energy."""


@pytest.fixture
def log_root(tmp_path: Path) -> Path:
    """Root with an unpriced run of 9 s, and two at a price: of 9 s and of 5 s."""
    log_root = tmp_path / "logs"
    price = priced(source="my contract", date="2026-01-02")
    write_run(log_root, "aa")
    write_run(log_root, "bb", price=price)
    write_run(log_root, "cc", scores=(), status=Status.CRASHED, price=price)
    return log_root


def printed(log_root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the report without its line breaks."""
    assert build_report(["--log_root", str(log_root), *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_terminal_names_both_prices_and_their_totals(log_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(log_root, capsys, "--instance", "aws-g5.xlarge")
    assert "asked for: aws-g5.xlarge at $1.006 per hour (on-demand, 1 × NVIDIA A10G 24GB, us-east-1, 2026-07-20" in text
    assert "declared: local (unpriced) · 1 run, $0.017 as asked for" in text
    assert "declared: local at $3600 per hour (custom, 1 × accelerator, 2026-01-02, my contract)" in text
    assert "2 runs, $0.034 as asked for instead of $14.00" in text


def test_own_hardware_shows_the_energy_cost_separately(
    log_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "mine.toml"
    book.write_text(OWN)
    arguments = ("--prices", str(book), "--instance", "mine")
    text = printed(log_root, capsys, *arguments, "--details")
    assert "mine at $1 per hour (owned, 1 × NVIDIA RTX 4090 24GB, $43830 over 5 years, 100% in use, $0.36" in text
    run = json.loads(printed(log_root, capsys, *arguments, "--json", "-"))["runs"][0]
    assert run["billable_usd"] == pytest.approx(9 / 3600 * (1.0 + 3.6))
    assert (run["energy_usd"], run["energy_basis"]) == (pytest.approx(9 / 3600 * 3.6), "nominal")
    by_declaration = json.loads(printed(log_root, capsys, "--json", "-"))["runs"][0]
    assert (by_declaration["energy_usd"], by_declaration["energy_basis"]) == (None, None)


def test_unknown_energy_leaves_the_cost_unknown(
    log_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "mine.toml"
    book.write_text(OWN.replace("power_w = 10_000\n", ""))
    arguments = ("--prices", str(book), "--instance", "mine")
    assert "set power_w for your own hardware" in printed(log_root, capsys, *arguments, "--details")
    run = json.loads(printed(log_root, capsys, *arguments, "--json", "-"))["runs"][0]
    assert (run["billable_usd"], run["energy_usd"]) == (None, None)


@pytest.mark.parametrize(
    ("line", "change", "complaint"),
    [
        ('date = "2026-02-03"', "", "date is missing"),
        ("purchase_usd = 43830", "purchase_usd = -1", "Expected `float` >= 0.0 - at `$.purchase_usd`"),
        ("purchase_usd = 43830", "purchase_eur = 1", "purchase_eur is an unknown field; did you mean 'purchase_usd'"),
    ],
)
def test_an_invalid_price_file_is_reported_with_file_entry_and_field(
    log_root: Path, tmp_path: Path, line: str, change: str, complaint: str
) -> None:
    book = tmp_path / "mine.toml"
    book.write_text(OWN.replace(line, change))
    with pytest.raises(UserError) as caught:
        build_report(["--log_root", str(log_root), "--prices", str(book), "--instance", "mine"])
    assert str(caught.value).startswith(f'{book}: [instances."mine"]: {complaint}')
    assert "\n" not in str(caught.value)
