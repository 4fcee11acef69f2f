"""Price entries: fields of the file, effects of the flags, and sources of the shipped prices."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.costs.prices import LOCAL, Price, load_price_book, load_prices, resolve_price

TODAY = datetime.date(2026, 1, 2)

NEWEST = "2026-11-21"
"""No shipped figure is younger; move it when you add one that is."""

ENTRY = {
    "accelerator": '"NVIDIA Test 80GB"',
    "accelerators": "8",
    "usd_per_hour": "12.5",
    "market": '"on-demand"',
    "region": '"us-test-1"',
    "billing_granularity_s": "1",
    "billing_minimum_s": "60",
    "source": '"https://example.com/prices"',
    "date": '"2026-01-01"',
}

OWNED = {
    "accelerators": "2",
    "market": '"owned"',
    "purchase_usd": "17_532",
    "lifetime_years": "2.5",
    "utilization": "0.8",
    "usd_per_kwh": "0.3",
    "power_w": "900",
    "billing_granularity_s": "1",
    "billing_minimum_s": "0",
    "source": '"invoice 123"',
    "date": '"2026-01-01"',
}
"""Two accelerators at 17,532 USD over 2.5 years of 8,766 hours, busy for 80 % of them: 1 USD an hour."""


def write_prices(folder: Path, entry: dict[str, str], header: str = '[instances."test.8x"]') -> Path:
    """Write a price file with one entry of TOML values."""
    path = folder / "prices.toml"
    path.write_text("\n".join([header, *(f"{key} = {value}" for key, value in entry.items())]), encoding="utf-8")
    return path


def user_error(path: Path) -> str:
    """Load a wrong price file and return its one-line complaint."""
    with pytest.raises(UserError) as caught:
        load_prices(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_an_entry_is_read_field_by_field(tmp_path: Path) -> None:
    assert load_prices(write_prices(tmp_path, ENTRY)) == {
        "test.8x": Price(
            instance="test.8x",
            accelerator="NVIDIA Test 80GB",
            accelerators=8,
            usd_per_hour=12.5,
            market="on-demand",
            region="us-test-1",
            billing_granularity_s=1,
            billing_minimum_s=60,
            source="https://example.com/prices",
            date="2026-01-01",
        )
    }


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("accelerators", "0", "Expected `int` >= 1"),
        ("accelerators", "true", "Expected `int`"),
        ("usd_per_hour", "-1", "Expected `float` >= 0"),
        ("usd_per_hour", '"free"', "Expected `float"),
        ("usd_per_hour", "nan", "Expected `float`"),
        ("usd_per_hour", "inf", "Expected `float` <= "),
        ("billing_granularity_s", "0", "Expected `float` >= "),
        ("billing_minimum_s", "-60", "Expected `float` >= 0"),
        ("market", '"auction"', "Invalid enum value 'auction'"),
        ("source", '" "', "matching regex"),
        ("note", "[]", "Expected `str"),
        ("date", '"1 January 2026"', "matching regex"),
        ("date", '"2026-02-30"', "day is out of range for month"),
        ("usd_per_hr", "12.5", "unknown field; did you mean 'usd_per_hour' or "),
        ("instance", '"other"', "unknown field"),
        ("power_w", "900", "power_w contradicts market = 'on-demand'"),
    ],
)
def test_a_wrong_field_yields_one_line_with_file_and_entry(
    tmp_path: Path, field: str, value: str, complaint: str
) -> None:
    message = user_error(write_prices(tmp_path, ENTRY | {field: value}))
    assert '[instances."test.8x"]: ' in message
    assert complaint in message
    assert field in message or "day is out of range" in complaint


@pytest.mark.parametrize("field", sorted(ENTRY))
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    entry = {key: value for key, value in ENTRY.items() if key != field}
    message = user_error(write_prices(tmp_path, entry))
    assert f"{field} is missing" in message or f"missing required field `{field}`" in message


def test_only_an_unpriced_entry_may_leave_the_price_out(tmp_path: Path) -> None:
    required = ("accelerators", "billing_granularity_s", "billing_minimum_s")
    entry = {key: ENTRY[key] for key in required} | {"market": '"unpriced"'}
    assert load_prices(write_prices(tmp_path, entry))["test.8x"].usd_per_hour is None
    message = user_error(write_prices(tmp_path, entry | {"usd_per_hour": "0.0"}))
    assert "usd_per_hour contradicts" in message


def test_a_custom_rate_needs_a_source_but_no_region(tmp_path: Path) -> None:
    entry = {key: value for key, value in ENTRY.items() if key not in ("accelerator", "region")}
    entry["market"] = '"custom"'
    assert load_prices(write_prices(tmp_path, entry))["test.8x"].usd_per_hour == 12.5
    del entry["source"]
    assert "source is missing" in user_error(write_prices(tmp_path, entry))


def test_owned_hardware_has_a_price_per_working_hour(tmp_path: Path) -> None:
    price = load_prices(write_prices(tmp_path, OWNED))["test.8x"]
    assert price.usd_per_hour == pytest.approx(1.0)
    assert dataclasses.replace(price, note="x").usd_per_hour == price.usd_per_hour
    assert Price.from_dict(json.loads(json.dumps(price.to_dict()))) == price


@pytest.mark.parametrize("field", ["purchase_usd", "lifetime_years", "utilization", "usd_per_kwh", "source", "date"])
def test_owned_hardware_needs_purchase_price_lifetime_and_utilization(tmp_path: Path, field: str) -> None:
    entry = {key: value for key, value in OWNED.items() if key != field}
    assert f'[instances."test.8x"]: {field} is missing' in user_error(write_prices(tmp_path, entry))


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("purchase_usd", "-1", "Expected `float` >= 0"),
        ("lifetime_years", "0", "Expected `float` > 0"),
        ("lifetime_years", "1e-310", "purchase_usd per hour of work must be"),
        ("utilization", "80", "Expected `float` <= 1"),
        ("power_w", "nan", "Expected `float`"),
        ("usd_per_hour", "2.0", "usd_per_hour contradicts purchase_usd"),
    ],
)
def test_fields_of_owned_hardware_are_checked(tmp_path: Path, field: str, value: str, complaint: str) -> None:
    message = user_error(write_prices(tmp_path, OWNED | {field: value}))
    assert '[instances."test.8x"]: ' in message
    assert complaint in message


def test_a_users_price_file_overrides_the_shipped_prices(tmp_path: Path) -> None:
    path = write_prices(tmp_path, ENTRY, header='[instances."aws-g5.xlarge"]')
    book = load_price_book(path)
    assert book["aws-g5.xlarge"].usd_per_hour == 12.5
    assert {name: price for name, price in book.items() if name != "aws-g5.xlarge"} == {
        name: price for name, price in load_price_book(None).items() if name != "aws-g5.xlarge"
    }
    assert load_price_book(None) == load_prices()


def test_a_dotted_name_without_quotes_gets_a_hint(tmp_path: Path) -> None:
    message = user_error(write_prices(tmp_path, ENTRY, header="[instances.test.8x]"))
    assert '[instances."test"]: 8x is an unknown field; quote instance names that contain a dot' in message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no entries"),
        ("instances = 3", "no entries"),
        ("[instances]", "no entries"),
        ("[prices.x]", "unknown key 'prices'"),
        ("[instances]\nx = 3", "an entry is a table of fields"),
        ("[instances.x", "not a TOML file"),
    ],
)
def test_a_malformed_price_file_gives_an_error_of_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    assert complaint in user_error(path)


def test_an_unreadable_price_file_gives_an_error_of_one_line(tmp_path: Path) -> None:
    assert "cannot read the price file" in user_error(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    assert "not a TOML file" in user_error(tmp_path / "latin.toml")


def test_a_price_is_unchanged_by_the_ledger() -> None:
    for price in load_prices().values():
        assert Price.from_dict(json.loads(json.dumps(price.to_dict()))) == price


@pytest.mark.parametrize("instance", [None, "aws-p5.48xlarge"])
def test_the_price_flag_overrides_the_entry_and_is_named_as_the_source(instance: str | None) -> None:
    prices = load_prices()
    listed = prices[instance or LOCAL]
    price = resolve_price(instance, 2.5, prices, today=TODAY)
    assert price == dataclasses.replace(
        listed, usd_per_hour=2.5, market="custom", source="--usd_per_hour", date="2026-01-02", note=None
    )
    assert prices[instance or LOCAL] is listed


def test_an_unknown_instance_gives_the_nearest_names() -> None:
    with pytest.raises(UserError, match=r"unknown instance 'p5\.48xlarge'; did you mean .*'aws-p5\.48xlarge'"):
        resolve_price("p5.48xlarge", None, load_prices(), today=TODAY)


@pytest.mark.parametrize("usd_per_hour", [-1.0, float("nan"), float("inf")])
def test_an_impossible_price_is_refused(usd_per_hour: float) -> None:
    with pytest.raises(UserError, match="--usd_per_hour must be a finite number of at least 0"):
        resolve_price("local", usd_per_hour, load_prices(), today=TODAY)


def test_the_shipped_file_prices_every_entry_but_local() -> None:
    unpriced = [name for name, price in load_prices().items() if price.usd_per_hour is None]
    assert unpriced == [LOCAL]


@pytest.mark.parametrize("name", [name for name in load_prices() if name != LOCAL])
def test_a_shipped_price_has_a_source_a_date_and_a_plausible_figure(name: str) -> None:
    price = load_prices()[name]
    assert price.source is not None
    assert price.source.startswith("https://")
    assert price.date is not None
    assert "2025-01-01" <= price.date <= NEWEST
    assert price.usd_per_hour is not None
    # A typing error in the price or in the number of accelerators leaves this range.
    assert 0.25 < price.usd_per_hour / price.accelerators < 20
