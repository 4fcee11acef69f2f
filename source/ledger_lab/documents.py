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
        ValueError: If it can't be read as a file (:func:`read_file`), is not TOML in UTF-8, or nests too deep.
    """
    text = read_file(path).decode("utf-8-sig")  # some editors begin a file with a byte order mark
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("tables and lists nest too deep") from None


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
    return "".join(f"{line}\n" for line in _yaml_lines(value))


def _yaml_lines(value: Any) -> list[str]:
    """Return the lines of a value. Those after the first have the indentation that they need below a key."""
    if isinstance(value, dict) and value:
        lines = []
        for key, item in value.items():
            first, *rest = _yaml_lines(item)
            if isinstance(item, dict | list) and item:
                lines += [f"{_yaml_scalar(key)}:", *(f"  {line}" if line else "" for line in (first, *rest))]
            else:
                lines += [f"{_yaml_scalar(key)}: {first}", *rest]
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            first, *rest = _yaml_lines(item)
            lines += [f"- {first}", *(f"  {line}" if line else "" for line in rest)]
        return lines
    if isinstance(value, str) and value.endswith("\n") and value.replace("\n", "").isprintable():
        first, *rest = value[:-1].split("\n")
        if first and rest and rest[-1] and not first.startswith(" "):
            return ["|", *(f"  {line}" if line else "" for line in (first, *rest))]
    return [_yaml_scalar(value)]


def _yaml_scalar(value: Any) -> str:
    """Return a value on one line."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return '"' + "".join(each if each.isprintable() and each not in '"\\' else _escaped(each) for each in value) + '"'


def _escaped(character: str) -> str:
    """Return the escape sequence of a character in a double-quoted text of YAML."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _toml_key(key: str) -> str:
    """Return a key, quoted if necessary."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)
