"""Redaction: values that look like secrets are replaced before they are written."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

REDACTED = "[redacted]"

_ENDING = (
    r"(?:token|secret|secret[_-]?key|passw(?:or)?d|[_.-]pass|passphrase|credentials?|api[_-]?key|access[_-]?key"
    r"|private[_-]?key)"
)
"""Endings of the names of secrets. A search in a text matches only the ending: the part before it stays anyway, and
trying every start would take too long on words of a megabyte."""

_SECRET_NAME = rf"[\w.-]*{_ENDING}"

_SECRET_VARIABLE = re.compile(rf"(?i)(?:{_SECRET_NAME}|\w+_(?:key|pat|jwt))$")
"""Names of environment variables that hold secrets. These may match more, because only the values are used."""

_LEAST_LENGTH = 8
"""Shortest value of an environment variable that counts as a secret [characters]; shorter ones occur by chance."""

_WORD = re.compile(r"[a-z]{1,12}")
"""Values that are no secrets despite the name of their variable, such as ``disabled``."""

_HARMLESS = r"""(?:(?:true|false|null|none|''|"")|(?<=token=)\d{1,7})(?!\S)"""
"""Switches, empty values and numbers of tokens; these must not change in configurations."""

_NAMED_VALUE = re.compile(rf"""(?i)({_ENDING}["']?\s*[=:]\s*)(?!{_HARMLESS})("[^"\n]*"|'[^'\n]*'|\S+)""")
"""``--api_key=…``, ``agent.token=…``, ``password: …``, ``{{"secret": "…"}}``."""

_NAME = re.compile(rf"(?i){_SECRET_NAME}$")

_SECRET_FLAG = re.compile(rf"(?i)-{{1,2}}{_SECRET_NAME}$")
"""``--api_key``, whose value is the next argument."""

_KNOWN_SHAPES = re.compile(
    r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|sk-(?=[\w-]*\d)[\w-]{20,}|nvapi-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|pypi-[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"
)
"""Tokens that can be recognized by their prefix."""

_URL_PASSWORD = re.compile(r"(://[^\s/:@]*:)([^\s/]+)(@)")

_AUTHORIZATION = re.compile(r"(?i)\b(bearer\s+|authorization:\s*basic\s+)(\S{8,})")

_PIECE_CHARACTERS = 1 << 22
"""Number of characters of a file that are searched together, extended to the end of a line."""


class Redactor:
    """Replaces secrets in text: by their names, by their form, and secrets of the environment by their values."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Collect the secrets of an environment.

        Args:
            environment: Environment variables, by default those of the process. Only values of variables with names of
                secrets are collected.
        """
        variables = os.environ if environment is None else environment
        secrets = {
            value
            for key, value in variables.items()
            if _SECRET_VARIABLE.match(key) and len(value) >= _LEAST_LENGTH and not _WORD.fullmatch(value)
        }
        longest_first = sorted(secrets, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return a text without its secrets."""
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        text = _NAMED_VALUE.sub(rf"\1{REDACTED}", text)
        text = _AUTHORIZATION.sub(rf"\1{REDACTED}", text)
        text = _URL_PASSWORD.sub(rf"\1{REDACTED}\3", text)
        return _KNOWN_SHAPES.sub(REDACTED, text)

    def value(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return a JSON value with all strings redacted, and in lists also the value after a flag of a secret."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                key: REDACTED if isinstance(each, str) and _NAME.match(key) else self.value(each)
                for key, each in value.items()
            }
        if isinstance(value, list):
            flags = [isinstance(each, str) and bool(_SECRET_FLAG.match(each)) for each in value]
            return [
                REDACTED if after_flag and isinstance(each, str) else self.value(each)
                for after_flag, each in zip([False, *flags], value, strict=False)
            ]
        return value


def redact_files(paths: Iterable[Path]) -> None:
    """Replace secrets in other text files beside a journal: dumped configurations, logs, diffs.

    A file without secrets is not touched. Any other file is replaced as a whole.

    Args:
        paths: The files.

    Raises:
        OSError: If a file can't be read or replaced.
    """
    redactor = Redactor()
    for path in paths:
        if all(redactor.text(piece) == piece for piece in _pieces(path)):
            continue
        clean = path.with_name(f".{path.name}.redacted")
        try:
            with clean.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.writelines(map(redactor.text, _pieces(path)))
            shutil.copymode(path, clean)
            clean.replace(path)
        finally:
            clean.unlink(missing_ok=True)


def _pieces(path: Path) -> Iterator[str]:
    """Yield a text in parts of many whole lines."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        while lines := file.readlines(_PIECE_CHARACTERS):
            yield "".join(lines)
