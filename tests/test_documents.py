"""Whatever a TOML or JSON file holds, reading it ends in a value or in an error of one line.

Whatever a text holds, YAML with it is read back as the same text.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.documents import DEEPEST, LARGEST_BYTES, read_json, read_toml, yaml_text
from ledger_lab.errors import UserError
from ledger_lab.ledger.costs import load_prices
from ledger_lab.panels import load_panel
from ledger_lab.studies.commands.study import run_study
from ledger_lab.tasks.exported import CONTRACT, POLICY, read_origin
from ledger_lab.tasks.recipes.recipe_file import read_recipe

HOSTILE_TOML = {
    "lists": "a = " + "[" * 100_000 + "]" * 100_000,
    "tables": "a = " + "{b=" * 50_000 + "1" + "}" * 50_000,
    "dots": "a" + ".a" * 100_000 + " = 1",
    "quoted dots": '"a"' + ' . "a"' * 100_000 + " = 1",
    "header": "[a" + ".a" * 100_000 + "]",
    "digits": "a = " + "9" * 10_000,
    "integer": f"a = {2**63}",
    "NUL": 'a = "\\u0000"',
    "NUL in a key": '"\\u0000" = 1',
    "not UTF-8": "a = 'ÿ'".encode("latin-1"),
}


@pytest.mark.parametrize("name", HOSTILE_TOML)
def test_hostile_toml_is_refused_in_one_line_by_every_reader(tmp_path: Path, name: str) -> None:
    path, content = tmp_path / "hostile.toml", HOSTILE_TOML[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError) as refused:
        read_toml(path)
    assert "\n" not in str(refused.value)
    for read in (lambda: load_panel(str(path)), lambda: load_prices(path), lambda: run_study([str(path)])):
        with pytest.raises(UserError) as told:
            read()
        assert str(path) in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        '{"a": %s}' % ("9" * 10_000),
        '{"a": "\\ud800"}',
        '{"a": "\\u0000"}',
        "[]",
        "1",
        "\xff",
    ],
)
def test_hostile_json_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / CONTRACT).write_bytes(content.encode("latin-1"))
    (tmp_path / POLICY).write_bytes(b"")
    with pytest.raises(ValueError) as refused:
        read_json(tmp_path / CONTRACT)
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match=CONTRACT):
        read_origin(tmp_path / POLICY, "export it again")


def test_what_is_sane_is_read_as_it_is(tmp_path: Path) -> None:
    toml, plain = tmp_path / "a.toml", tmp_path / "a.json"
    toml.write_text("a = [[1, 2], [{b = 3}]]\n[instances.'a.b']\nc.d = -9223372036854775808\n")
    assert read_toml(toml) == {"a": [[1, 2], [{"b": 3}]], "instances": {"a.b": {"c": {"d": -(2**63)}}}}
    toml.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(toml) == {"a": 1}, "a byte order mark is no content"
    nested: object = 1
    for _ in range(DEEPEST - 2):
        nested = [nested]
    plain.write_text(json.dumps({"a": nested}))
    assert read_json(plain) == {"a": nested}


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


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_yaml_is_read_back_as_it_was_written(value: dict[str, object]) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


def test_yaml_is_made_for_people() -> None:
    value = {"name": "a-b/c.d", "no": "off", "run": "#!/bin/sh\n\n  echo $1\n", "many": [{"of": ["1", 1]}], "none": {}}
    assert yaml_text(value) == (
        'name: a-b/c.d\n"no": "off"\nrun: |\n  #!/bin/sh\n\n    echo $1\n'
        'many:\n  - of:\n      - "1"\n      - 1\nnone: {}\n'
    )
