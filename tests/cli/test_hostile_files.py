"""Price files, panels, studies and contracts of strangers are refused in one line, whatever stands in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.costs import load_prices
from ledger_lab.panels import load_panel
from ledger_lab.studies.declared.study import load_study
from ledger_lab.tasks.exported import CONTRACT, POLICY, read_origin

DEEP = {"lists": "a=" + "[" * 100_000 + "]" * 100_000, "tables": "a=" + "{a=" * 20_000 + "1" + "}" * 20_000}
DIGITS = {"digits": "a=" + "1" * 9_000}

PRICE = """
[instances.x]
market = "custom"
accelerators = 1
billing_granularity_s = 1
billing_minimum_s = 0
usd_per_hour = 1.0
source = "s"
date = "2026-01-01"
"""


@pytest.mark.parametrize("text", [*DEEP.values(), *DIGITS.values()], ids=[*DEEP, *DIGITS])
@pytest.mark.parametrize(
    "load",
    [load_prices, lambda path: load_panel(str(path)), lambda path: load_study(str(path))],
    ids=["prices", "panel", "study"],
)
def test_no_toml_ends_in_a_traceback(load: Callable[[Path], object], text: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.toml"
    path.write_text(text)
    with pytest.raises(UserError) as refused:
        load(path)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("usd_per_hour = 1.0", "usd_per_hour = 1e300"),
        pytest.param("usd_per_hour = 1.0", "usd_per_hour = " + "9" * 400, id="price of 400 digits"),
        pytest.param("accelerators = 1", "accelerators = " + "9" * 400, id="accelerators of 400 digits"),
        ("granularity_s = 1", "granularity_s = 5e-324"),
    ],
)
def test_prices_with_which_nothing_can_be_computed_are_refused(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(PRICE)
    assert set(load_prices(path)) == {"x"}
    path.write_text(PRICE.replace(old, new))
    with pytest.raises(UserError, match="must be at (most|least)|more than 64 bits"):
        load_prices(path)


@pytest.mark.parametrize("checkpoint", ["[" * 100_000 + "]" * 100_000, "7", '["a"]', "null"])
def test_no_contract_ends_in_a_traceback(checkpoint: str, tmp_path: Path) -> None:
    policy = tmp_path / POLICY
    policy.write_bytes(b"a policy")
    about = json.dumps({"task": "T", "checkpoint_sha256": "00", "checkpoint": None})
    files = json.dumps({POLICY: {"sha256": hashlib.sha256(b"a policy").hexdigest()}})
    text = f'{{"files": {files}, "policy": {about.replace("null", checkpoint)}}}'
    (tmp_path / CONTRACT).write_text(text)
    with pytest.raises(UserError, match="cannot read contract.json beside"):
        read_origin(policy, "export it again")
