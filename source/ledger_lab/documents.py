"""Readers of TOML and JSON files that users or others write, and writers of TOML and YAML.

A wrong file ends in a ``ValueError``, whatever it is.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["read_file", "read_json", "read_toml", "toml_value", "yaml_text"]

DEEPEST = 64
"""Levels of tables and lists that a file may nest."""
LARGEST_BYTES = 1 << 26
"""Size of the largest file [B]."""
_LARGEST_INTEGER = 2**63 - 1
"""TOML asks for integers of 64 bits."""
_LONG_KEY = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}""")
"""A dotted key of too many parts; Python's parser takes minutes for one of 100,000."""
_TOO_LARGE = "an integer has more than 64 bits"
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
            The message is one line.
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is a pipe or a device: name a regular file")
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES >> 20} MiB")
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; of a pipe, do not wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.

    Raises:
        OSError: If it can't be read.
        ValueError: If it is no regular file or not TOML in UTF-8, has more than :data:`LARGEST_BYTES`, nests too deep,
            holds an integer of more than 64 bits or a character NUL, or the path can't be that of a file. The message
            is one line.
    """
    text = read_file(path).decode("utf-8-sig")  # some editors begin a file with a byte order mark
    if _LONG_KEY.search(text):
        raise ValueError(_too_deep())
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python converts no text of thousands of digits
        raise ValueError(_TOO_LARGE) from None
    _require_sane(content)
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Args:
        path: The file.

    Raises:
        OSError: If it can't be read.
        ValueError: If it is no regular file or no JSON object in UTF-8, has more than :data:`LARGEST_BYTES`, nests too
            deep, holds an integer of more than 64 bits or a character NUL, or the path can't be that of a file. The
            message is one line.
    """
    data = read_file(path)
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError(_TOO_LARGE) from None
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    _require_sane(content)
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
            if _nests(item) and item:
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


def _too_deep() -> str:
    """Return what is said of a file that nests too deep."""
    return f"tables and lists nest deeper than {DEEPEST} levels"


def _require_sane(content: Any) -> None:
    """Refuse what would overflow later, where it is not expected.

    Raises:
        ValueError: If values nest too deep, an integer has more than 64 bits, or a text holds NUL or half a character.
    """
    level = [content]
    for _ in range(DEEPEST):
        for value in level:
            if isinstance(value, int) and not -_LARGEST_INTEGER - 1 <= value <= _LARGEST_INTEGER:
                raise ValueError(_TOO_LARGE)
            if isinstance(value, str) and ("\0" in value or not _is_utf8(value)):
                raise ValueError(f"the text {value[:40]!r} holds NUL, or half a character")
        nested = ([*value, *value.values()] if isinstance(value, dict) else value for value in level if _nests(value))
        level = [value for values in nested for value in values]
        if not level:
            return
    raise ValueError(_too_deep())


def _nests(value: Any) -> bool:
    """Tell whether a value holds others."""
    return isinstance(value, dict | list)


def _is_utf8(text: str) -> bool:
    """Tell whether a text can be written in UTF-8; JSON can escape half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
