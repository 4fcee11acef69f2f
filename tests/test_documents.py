"""Whatever a JSON file holds, reading it ends in a value or in an error of one line; so does a TOML file of a user.

Whatever a text holds, YAML with it is read back as the same text.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger_lab.documents import LARGEST_BYTES, read_json, read_toml, yaml_text
from ledger_lab.errors import UserError
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.panels import load_panel
from ledger_lab.studies.commands.study import run_study
from ledger_lab.tasks.exported import CONTRACT, POLICY, read_origin
from ledger_lab.tasks.recipes.recipe_file import read_recipe


@pytest.mark.parametrize(
    "content",
    [
        b"a = ",
        b"a = " + b"9" * 10_000,
        b"a = " + b"9" * 400,
        b"a = [{b = [-9223372036854775809]}]",
        b"a = " + b"[" * 5000,
        "a = 'ÿ'".encode("latin-1"),
    ],
)
def test_what_is_no_toml_is_refused_in_one_line_by_every_reader(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "wrong.toml"
    path.write_bytes(content)
    for read in (lambda: load_panel(str(path)), lambda: load_prices(path), lambda: run_study([str(path)])):
        with pytest.raises(UserError) as told:
            read()
        assert str(path) in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("content", ["[" * 200_000, '{"a":' * 200_000, '{"a": "\\ud800"}', "[]", "1", "\xff", "{"])
def test_hostile_json_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / CONTRACT).write_bytes(content.encode("latin-1"))
    (tmp_path / POLICY).write_bytes(b"")
    with pytest.raises(ValueError) as refused:
        read_json(tmp_path / CONTRACT)
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match=CONTRACT):
        read_origin(tmp_path / POLICY, "export it again")


@pytest.mark.parametrize("checkpoint", ["[" * 100_000 + "]" * 100_000, "7", '["a"]', "null", '"a\\u0000b"'])
def test_no_contract_ends_in_a_traceback(checkpoint: str, tmp_path: Path) -> None:
    (tmp_path / POLICY).write_bytes(b"a policy")
    files = json.dumps({POLICY: {"sha256": hashlib.sha256(b"a policy").hexdigest()}})
    about = f'{{"task": "T", "checkpoint_sha256": "00", "checkpoint": {checkpoint}}}'
    (tmp_path / CONTRACT).write_text(f'{{"files": {files}, "policy": {about}}}')
    try:
        read_origin(tmp_path / POLICY, "export it again")
    except UserError as refused:
        assert "cannot read contract.json beside" in str(refused)
    else:
        assert checkpoint.startswith('"'), "a name, which no file has"


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
    with pytest.raises(UserError, match=r"Expected `(float|int)` [<>]= .* - at `\$\.|more than 64 bits"):
        load_prices(path)


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(toml) == {"a": 1}


@pytest.mark.parametrize("read", [read_toml, read_json])
def test_a_path_with_nul_is_a_value_error(read: object) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match="null"):
        read(Path("a\0b"))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["a pipe without a writer", "a device without an end"])
def test_what_is_no_regular_file_is_refused_by_every_reader(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "odd.toml"
    if kind == "a pipe without a writer":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    for read in (read_toml, read_json):
        with pytest.raises(ValueError, match="^it is a pipe or a device: name a regular file$"):
            read(path)
    for ask in (lambda: read_recipe(path), lambda: load_prices(path), lambda: load_panel(str(path))):
        with pytest.raises(UserError) as told:
            ask()
        assert str(path) in str(told.value) and "\n" not in str(told.value)
    with pytest.raises(IsADirectoryError):
        read_toml(tmp_path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.touch()
    os.truncate(path, LARGEST_BYTES + 1)
    for read in (read_toml, read_json):
        with pytest.raises(ValueError, match="more than 64 MiB"):
            read(path)


TEXTS = st.text() | st.text("ab:#-[]{}\"'\\\n \t&*!|>%@`$,?~=<yesnoYN01.\r\u2028\x85\ufeff\U0001f600", max_size=12)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
@example({"a": "\x85\n", "b": "x\x85y\n", "c": "a\rb\n", "d": "\u2028\n", "e": " a\n\n", "f": "1e3\n"})
def test_yaml_is_read_back_as_it_was_written(value: dict[str, object]) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


def test_yaml_is_made_for_people() -> None:
    value = {"name": "a-b/c.d", "no": "off", "run": "#!/bin/sh\n\n  echo $1\n", "many": [{"of": ["1", 1]}], "none": {}}
    assert yaml_text(value) == (
        'name: a-b/c.d\n"no": "off"\nrun: |\n  #!/bin/sh\n\n    echo $1\n'
        'many:\n  - of:\n      - "1"\n      - 1\nnone: {}\n'
    )
