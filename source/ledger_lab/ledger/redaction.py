"""Redaction: values that look like secrets are replaced before they are written."""

from __future__ import annotations

import functools
import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

from ledger_lab.ledger.row import Row

REDACTED = "[redacted]"

_ENDING = (
    r"(?:token|secret|secret[_-]?key|passw(?:or)?d|[_.-]pass|[_.-]pwd|passphrase|credentials?|api[_-]?key|access[_-]?key"
    r"|account[_-]?key|private[_-]?key)"
)
"""Endings of the names of secrets. A search in a text matches only the ending: the part before it stays anyway, and
trying every start would take too long on words of a megabyte."""

_SECRET_NAME = rf"[\w.-]*{_ENDING}"

_SECRET_VARIABLE = re.compile(rf"(?i){_SECRET_NAME}$")
"""Names of environment variables that hold secrets."""

_KEY_VARIABLE = re.compile(r"(?i)\w+_(?:key|pat|jwt)$")
"""Names of environment variables that may hold secrets. Their values count as secrets if they look random."""

_LEAST_LENGTH = 8
"""Length of the shortest value that is replaced anywhere in a text [characters]; shorter ones occur by chance."""

_WORD = re.compile(r"[a-z]{1,12}")
"""Values that are no secrets despite the name of their variable, such as ``disabled``."""

_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.+/=-]{16,}")
"""Values that look random."""

_END = r"(?=[\s,}\])]|$)"
_HARMLESS = rf"""(?:"?\[redacted\]|(?:true|false|null|none|''|""){_END}|(?<=token=)\d{{1,7}}{_END})"""
"""Values that are redacted already, switches, empty values and numbers of tokens; these must not change in
configurations."""

_QUOTED = r"""(?:\\"(?:(?!\\").)*\\"|"(?:[^"\\\n]|\\[\s\S]|\n(?=[ \t\n]))*"|'(?:[^'\\\n]|\\.|''|\n(?=[ \t\n]))*')"""
"""A quoted text: within a JSON string, where the quotes are escaped, or in JSON, YAML or Python, where it may continue
in indented lines."""

_AFTER_EQUALS = re.compile(rf"""(?i)({_ENDING}(?:\\?["'])?[ \t]*=[ \t]*)(?!{_HARMLESS})({_QUOTED}|[^\s&]+)""")
"""``--api_key=…``, ``agent.token=…``, ``?access_token=…&``."""

_AFTER_COLON = re.compile(
    rf"""(?i)({_ENDING}(?:\\?["'])?[ \t]*:[ \t]+|{_ENDING}\\?["']:)(?!{_HARMLESS})({_QUOTED}|[^\s][^\n]*)"""
)
"""``password: …`` to the end of the line, as in YAML, and ``{{"secret": "…"}}``."""

_IN_BRACES = re.compile(rf"(?i)([{{,][ \t]*[\w.-]*{_ENDING}:[ \t]+)(?!{_HARMLESS})([^\s,}}\]\"'\\][^\n,}}\]]*)")
"""``{password: …, seed: 3}``, as in YAML."""

_BLOCK = re.compile(
    rf"(?im)^([ \t]*+)([^\n]*{_ENDING}[\"']?:[ \t]*)[|>][-+\d]*[ \t]*$(?:\n\1[ \t]+[^\n]*|\n(?=[ \t]*$))*"
)
"""``private_key: |`` and the indented lines after it, as in YAML."""

_AFTER_FLAG = re.compile(rf"""(?i)((?:^|\s)-{{1,2}}{_SECRET_NAME}\s+)(?![-\s])({_QUOTED}|\S+)""")
"""``--password …``"""

_NAME = re.compile(rf"(?i){_SECRET_NAME}$")

_SECRET_FLAG = re.compile(rf"(?i)-{{1,2}}{_SECRET_NAME}$")
"""``--api_key``, whose value is the next argument."""

_SECRET_ARGUMENT = re.compile(rf"(?i)(?:-{{1,2}})?{_SECRET_NAME}=(.+)", re.DOTALL)
"""``--api_key=…`` or ``agent.api_key=…``."""

_KNOWN_SHAPES = re.compile(
    r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|sk-(?=[\w-]{0,200}\d)[\w-]{20,}|nvapi-[\w-]{16,}"
    r"|xox[abeprs]-[\w-]{10,}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|pypi-[\w-]{16,}"
    r"|npm_[A-Za-z0-9]{36}|[rs]k_live_[A-Za-z0-9]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|\d{8,10}:AA[\w-]{33}"
    r"|(?<!-)eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"
)
"""Tokens that can be recognized by their prefix."""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)

_URL_PASSWORD = re.compile(r"(://[^\s/:@]*:)([^\s/]+)(@)")

_URL_USER = re.compile(r"(://)(?=[^\s/:@]*\d)([^\s/:@]{16,})(@)")
"""A token in place of a user name."""

_SIGNATURE = re.compile(
    r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=)([^&\s\"']+)"
)
"""Signatures in addresses, which give access to everyone who has the address."""

_AUTHORIZATION = re.compile(
    r"""(?i)\b((?:proxy-)?authorization\\?["']?\s*[:=]\s*\\?["']?)([^"'\\\n]{8,})|\b(bearer\s+)(\S{8,})"""
)

_COOKIE_NAME = r"[\w!#$%&*+.^`|~-]+"

_COOKIE = re.compile(
    rf"""(?i)\b((?:set-)?cookie(?:\\?["'])?[ \t]*[:,][ \t]*\\?["'])({_COOKIE_NAME}=[^"'\\\n]*)"""
    rf"""|\b((?:set-)?cookie:[ \t]*)({_COOKIE_NAME}=(?:"[^"\n]*"(?=[;\s]|$)|[^;"'\\\n]*)"""
    rf"""(?:;[ \t]*(?:{_COOKIE_NAME}(?:="[^"\n]*"(?=[;\s]|$)|=[^;"'\\\n]*)?)?)*)"""
)
"""``Cookie: session=…; user=…`` and ``{"Set-Cookie": "session=…"}``. All cookies count as secrets, because their names
do not tell."""

_TO_VALUE = r"""(?:\\?["'],)?[\s=]+"""
"""What separates a flag from its value, on a command line or in a list."""

_PASSWORD = rf"""(?![-\s])({_QUOTED}|[^\s"'\\]+)"""

_USER_AND_PASSWORD = rf"""(?=[\\"']*[^\s:/"'\\]{{0,99}}:(?!//)){_PASSWORD}"""

_CLIENTS = [
    (
        re.compile(rf"(?<![\w-])(?:{name})(?!\w)[^\n\\]*(?:\\[\s\S][^\n\\]*)*"),
        re.compile(rf"((?<![\w-]){flag}){value}"),
        count,
    )
    for name, flag, value, count in (
        ("curl", rf"(?:-[a-zA-Z]{{0,9}}[uU]|--(?:proxy-)?user)(?:{_TO_VALUE})?", _USER_AND_PASSWORD, 0),
        ("curl", rf"(?:-[a-zA-Z]{{0,9}}b|--cookie){_TO_VALUE}", rf"(?=[\\\"']*{_COOKIE_NAME}=){_PASSWORD}", 0),
        ("sshpass", rf"-p(?:{_TO_VALUE})?", _PASSWORD, 1),
        (r"(?:docker|podman)(?:\\?[\"'],)?\s+\\?[\"']?login", rf"-p{_TO_VALUE}", _PASSWORD, 1),
        ("(?:mysql|mariadb)(?:-?(?:admin|dump|import|show|check))?", "-p", _PASSWORD, 1),
        ("redis-cli", rf"-a{_TO_VALUE}", _PASSWORD, 1),
        ("mongo(?:sh|dump|restore|export|import)?", rf"-p{_TO_VALUE}", _PASSWORD, 1),
    )
]
"""Command lines of clients that take a password by a flag with another name; this flag with its value; and how many of
them are replaced, 0 for all. After the first one, ``-p`` may belong to another program."""

_LOGIN = re.compile(r"(?i)\b(login[ \t]+[^\s:]+\s+password[ \t]+)(\S+)")
"""``login … password …``, as in ``.netrc``."""

_PIECE_CHARACTERS = 1 << 22
"""Number of characters of a file that are searched together, extended to the end of a line."""


class Redactor:
    """Replaces secrets in text: by their names, by their form, and known secrets by their values."""

    def __init__(self, environment: Mapping[str, str] | None = None, arguments: Sequence[str] | None = None) -> None:
        """Collect the secrets of a process.

        Args:
            environment: Environment variables, by default those of the process. Only values of variables with names of
                secrets are collected.
            arguments: Command line, by default that of the process. Values of flags with names of secrets are
                collected.
        """
        variables = os.environ if environment is None else environment
        command = sys.argv if arguments is None and environment is None else arguments or ()
        values = {
            value
            for key, value in variables.items()
            if _SECRET_VARIABLE.match(key) or (_KEY_VARIABLE.match(key) and _RANDOM.fullmatch(value))
        }
        values |= {value for flag, value in pairwise(command) if _SECRET_FLAG.match(flag)}
        values |= {found[1] for each in command if (found := _SECRET_ARGUMENT.fullmatch(each))}
        secrets = {value for value in values if len(value) >= _LEAST_LENGTH and not _WORD.fullmatch(value)}
        longest_first = sorted(secrets, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return a text without its secrets."""
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        text = _PRIVATE_KEY.sub(REDACTED, text)
        text = _AUTHORIZATION.sub(lambda found: f"{found[1] or found[3]}{REDACTED}", text)
        text = _COOKIE.sub(lambda found: f"{found[1] or found[3]}{REDACTED}", text)
        text = _SIGNATURE.sub(rf"\1{REDACTED}", text)
        text = _BLOCK.sub(rf"\1\2{REDACTED}", text)
        for named in (_IN_BRACES, _AFTER_EQUALS, _AFTER_COLON, _AFTER_FLAG):
            text = named.sub(_without_value, text)
        for client, password, count in _CLIENTS:
            hide = functools.partial(password.sub, _without_value, count=count)
            text = client.sub(lambda found: hide(found[0]), text)  # noqa: B023 - called before the next turn
        text = _LOGIN.sub(rf"\1{REDACTED}", text)
        text = _URL_PASSWORD.sub(rf"\1{REDACTED}\3", text)
        text = _URL_USER.sub(rf"\1{REDACTED}\3", text)
        return _KNOWN_SHAPES.sub(REDACTED, text)

    def row(self, row: Row) -> dict[str, Any]:
        """Return the fields of a row without secrets. Fields that identify the run, task or panel stay."""
        data = row.to_data()
        return {key: each if key in row.IDENTITY else self.value({key: each})[key] for key, each in data.items()}

    def value(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return a JSON value with all strings redacted, and in lists also the value after a flag of a secret."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: _hidden(each) if _NAME.match(key) else self.value(each) for key, each in value.items()}
        if isinstance(value, list):
            flags = [isinstance(each, str) and bool(_SECRET_FLAG.match(each)) for each in value]
            return [
                REDACTED if after_flag and isinstance(each, str) else self.value(each)
                for after_flag, each in zip([False, *flags], value, strict=False)
            ]
        return value


def _hidden(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with all its strings replaced. Numbers stay, because a configuration may count tokens."""
    if isinstance(value, dict):
        return {key: _hidden(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_hidden(each) for each in value]
    return REDACTED if isinstance(value, str) and value else value


def _without_value(found: re.Match[str]) -> str:
    """Return a name with a redacted value. The quotes stay, so JSON and YAML remain valid."""
    quote = re.match(r"""\\?["']""", found[2])
    around = quote[0] if quote else ""
    return f"{found[1]}{around}{REDACTED}{around}"


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


class RedactedStream(io.TextIOBase):
    """Writes text without secrets, whole lines at a time, into another stream."""

    def __init__(self, stream: TextIO) -> None:
        """Take the stream."""
        self._stream, self._redactor, self._begun = stream, Redactor(), ""

    def write(self, text: str) -> int:
        """Write the complete lines; keep the beginning of the next line."""
        *lines, self._begun = (self._begun + text).split("\n")
        if lines:
            self._stream.write(self._redactor.text("\n".join(lines)) + "\n")
            self._stream.flush()
        return len(text)

    def finish(self) -> None:
        """Write the last line, which has no newline."""
        self._stream.write(self._redactor.text(self._begun))
        self._begun = ""
        self._stream.flush()


def _pieces(path: Path) -> Iterator[str]:
    """Yield a text in parts of many whole lines."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        while lines := file.readlines(_PIECE_CHARACTERS):
            yield "".join(lines)
