"""Readers of TOML and JSON files, and writers of TOML and YAML. A wrong file ends in a ``ValueError`` of one line."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import orjson

__all__ = ["read_file", "read_json", "read_toml", "toml_value", "yaml_text"]

LARGEST_BYTES = 1 << 26
"""Size of the largest file [B]."""
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
"""A text that YAML reads as itself without quotes, unless it is one of :data:`_NOT_TEXT`."""
_NOT_TEXT = frozenset(["false", "n", "no", "null", "off", "on", "true", "y", "yes"])
"""Words that YAML 1.1 reads as a truth value or as nothing, in any case."""


def read_file(path: Path) -> bytes:
    """Return the content of a regular file. A pipe might never have a writer, and a device may have no end.

    Args:
        path: The file.

    Raises:
        OSError: If it can't be read.
        ValueError: If it is no regular file, has more than :data:`LARGEST_BYTES`, or the path can't be that of a file.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is a pipe or a device: name a regular file")
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES >> 20} MiB")
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, which the user has written.

    Args:
        path: The file.

    Raises:
        OSError: If it can't be read.
        ValueError: If it can't be read as a file (:func:`read_file`), is not TOML in UTF-8, nests too deep, or has a
            whole number of more than 64 bits.
    """
    text = read_file(path).decode("utf-8-sig")  # some editors begin a file with a byte order mark
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise ValueError("tables and lists nest too deep") from None
    pending: list[tuple[str, Any]] = [*content.items()]
    while pending:
        name, value = pending.pop()
        if isinstance(value, dict):
            pending += value.items()
        elif isinstance(value, list):
            pending += ((name, each) for each in value)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"{name!r} is a whole number of more than 64 bits")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object, and that others may have written.

    Args:
        path: The file.

    Raises:
        OSError: If it can't be read.
        ValueError: If it can't be read as a file (:func:`read_file`), is no JSON object in UTF-8, nests too deep, or
            holds half a character.
    """
    content = orjson.loads(read_file(path))
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it, for files that the project makes.

    Args:
        value: Texts, numbers, and lists and tables of them.
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml_key(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON and TOML have the same escapes, but only TOML requires one for the delete character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def yaml_text(value: Any) -> str:
    """Return a value as YAML that people can read. Each text in it is read back as this text, whatever it holds.

    Args:
        value: Texts, whole numbers, truth values, and lists and tables of them.
    """
    import yaml  # slow to import

    class Dumper(yaml.SafeDumper):
        """Writes each list and table at its place, with its items indented."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: Dumper, value: str) -> Any:
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT
        is_block = value.endswith("\n") and value.replace("\n", "").isprintable()
        style = "|" if is_block else None if is_plain else '"'  # a block would end lines at other characters, too
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, width=float("inf"), allow_unicode=True)


def _toml_key(key: str) -> str:
    """Return a key, quoted if necessary."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)
