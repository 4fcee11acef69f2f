"""Redaction: values that look like secrets are replaced before they are written.

Tables of rules find secrets by their names, by their surroundings and by their own form. The prefixes of tokens follow
detect-secrets, gitleaks and GitHub's secret scanning. Their scanners do not replace these rules, because they search
line by line and find random values only between quotes. No rule takes quadratic time: a search starts at the ending of
a name, and repetitions that could overlap are possessive or bounded.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from urllib.parse import quote

from ledger_lab.files import whole_file
from ledger_lab.ledger.row import Row

REDACTED = "[redacted]"

_LEAST_LENGTH = 8
"""Length of the shortest value that is replaced anywhere in a text [characters]; shorter ones occur by chance."""

_ENDING = (
    r"(?:(?:api|access|account|private|secret|signing|encryption|master|deploy|license|session)[ _.-]?keys?|token"
    r"|secrets?|secret[_-]?id|client-key-data|(?<!/etc/)passw(?:or)?ds?|passphrase|passcode|credentials?"
    r"|connection[_-]?string|[_.-](?:pass|pwd|auth)|(?-i:(?<=[a-z])(?:Pass|Pwd)|\bPwd))(?:_?\d{1,2})?"
)
"""Endings of the names of secrets. A search in a text matches only the ending: the part before it stays anyway, and
trying every start would take too long on words of a megabyte."""

_SECRET_NAME = rf"[\w.-]*{_ENDING}"

_NAME = re.compile(rf"(?i){_SECRET_NAME}$")
"""Names of secrets: fields and environment variables."""

_SECRET_FLAG = re.compile(rf"(?i)-{{1,2}}{_SECRET_NAME}$")
"""``--api_key``, whose value is the next argument."""

_SECRET_ARGUMENT = re.compile(rf"(?i)(?:-{{1,2}})?{_SECRET_NAME}=(.+)", re.DOTALL)
"""``--api_key=…`` or ``agent.api_key=…``."""

_HINT = (
    r"(?:(?<![A-Za-z])(?:key|pass|password|pwd|pw|auth|credential|secret|token|login|jwt|pat|psk|salt|csrf|apikey|session[_-]?id)s?"
    r"|(?-i:(?<=[a-z])(?:Key|Pass|Auth|Secret|Token)))(?![A-Za-z])"
)
"""Words that hint at a secret, as a part of a name or in a sentence: what follows counts if it looks random."""

_HINTING_NAME = re.compile(rf"(?i)\w*?{_HINT}\w*$")
"""Names of environment variables that may hold secrets."""

_NO_SECRET_KEY = re.compile(
    r"(?i)(?:cache|public|pub|primary|foreign|sort|partition|group|idempotency|storage_cache)[ _-]?$"
)
"""What stands before ``key`` in names of keys that are no secrets."""

_WORD = re.compile(r"[a-z]{1,12}")
"""Values that are no secrets despite the name of their variable, such as ``disabled``."""

_HARMLESS = re.compile(
    r"""(?i)(?:\\{0,7}["'])?\[redacted\](?:[\s,;}\])"'\\].*)?|true|false|null|none|~|''|""|\[\]|\{\}"""
    r"""|\*+|<[^<>]*>|\.\.\.|(?:str|bytes|int|float|bool|list|dict|tuple|set|any|optional|sequence|mapping|(?:torch\.)?tensor)"""
    r"""(?:\s*(?:[|=\[,)].*)?)"""
)
"""Values that are redacted already, switches, empty values, placeholders and types of Python."""

_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[].*|(?:self|cls|os|args|cfg|config|request|settings|getpass)\.\w.*", re.DOTALL)
"""Calls and attributes in code, in place of a value."""

_NO_TOKEN = re.compile(
    r"""(?i)(?:[-+]?\d{1,7}(?:\.\d*)?|[\[{](?:[\w-]+[ \t]*:|true\b|false\b|null\b|none\b|[\d\s,.+\[\]{}-])*+)[}\]]*"""
)
"""Numbers of tokens or passes, and their settings that hold only numbers and switches."""

_LONGEST_HARMLESS = 500
"""Length of the longest value that may be harmless [characters]. What is longer counts as a secret, so that names
within a value are not searched again and again."""

_MARK = r"\\{0,7}[\"']"
"""A quotation mark, escaped in JSON within JSON."""

_QUOTED = (
    r"""(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|(?P<mark>\\{1,7}["'])(?:(?!(?P=mark)).)*+(?P=mark)"""
    r"""|"(?:[^"\\\n]|\\[\s\S]|\n(?=[-+ \t\n]))*+"|'(?:[^'\\\n]|\\.|''|\n(?=[-+ \t\n]))*+')"""
)
"""A quoted text: of Python; within a JSON string, where the quotes are escaped; or in JSON or YAML, where it may
continue in indented lines, which begin with a mark in a diff."""

_ITEM = _QUOTED + r"(?:[ \t]*\\\n[-+]?[ \t]*(?:\"[^\"\n]*\"|'[^'\n]*'))*"

_BRACKETS = r"(?:\{[^{}\n]*\}|\[(?!redacted\])[^\[\]\n]*\])"

_COOKIE_NAME = r"[\w!#$%&*+.^`|~-]+"

_RANDOM = r"(?P<secret>[\w+/=.~-]{16,})"


class _Rule(NamedTuple):
    """What is replaced: the group ``secret`` of a pattern, where it counts as a secret."""

    pattern: re.Pattern[str]
    counts: Callable[[re.Match[str]], bool] | None = None

    def apply(self, text: str, times: int = 0) -> str:
        return self.pattern.sub(self._hide, text, count=times)

    def _hide(self, found: re.Match[str]) -> str:
        if self.counts is not None and not self.counts(found):
            return found[0]
        start, end = found.span("secret")
        return found[0][: start - found.start()] + _hidden_text(found["secret"]) + found[0][end - found.start() :]


def _hidden_text(secret: str, mark_of_name: str | None = None) -> str:
    """Return what replaces a secret. The quotes stay, so JSON and YAML remain valid."""
    opening = re.match(_MARK, secret)
    mark = opening[0] if opening else mark_of_name or "" if secret[0] in "[{" else ""
    return f"{mark}{REDACTED}{mark}"


def looks_random(text: str) -> bool:
    """Return whether a text looks like a generated key rather than like words, numbers, paths or a UUID.

    A long piece without separators changes often between digits, capital and small letters. In words such changes are
    rare; that a word begins with a capital letter does not count. The entropy of so short texts separates them worse.
    """
    return any(
        4 * len(re.findall(r"(?=[a-z][A-Z0-9]|[A-Z]\d|\d[A-Za-z])", piece)) >= len(piece)
        for piece in re.findall(r"[A-Za-z0-9+=]{16,}", text)
    )


def _is_secret(name: str, value: str, code: bool = False) -> bool:
    """Return whether the value of a name of a secret is one, rather than a switch, a number of tokens, or code."""
    if len(value) > _LONGEST_HARMLESS:
        return True
    value = value.strip()
    bare = value.rstrip(",;)")
    if not value or _HARMLESS.fullmatch(value) or _HARMLESS.fullmatch(bare.rstrip("}]")):
        return False
    if name.lower().endswith(("token", "pass", "auth")) and _NO_TOKEN.fullmatch(bare):
        return False
    return not (code and (_CODE.fullmatch(value) or bare.split(".")[-1].lower() == name.lower()))


def _has_secret(found: re.Match[str]) -> bool:
    return _is_secret(found["name"], found["secret"])


def _follows_hint(found: re.Match[str]) -> bool:
    """Return whether a value after a word such as *key* looks random, and the word does not name a public key."""
    before = found.string[max(found.start() - 20, 0) : found.start()]
    return looks_random(found["secret"]) and not _NO_SECRET_KEY.search(before)


_TO_VALUE = r"""(?:\\?["'],)?[\s=]+"""
"""What separates a flag from its value, on a command line or in a list."""

_PASSWORD = rf"""(?![-\s])(?P<secret>{_QUOTED}|[^\s"'\\]+)"""

_USER_AND_PASSWORD = rf"""(?=[\\"']*[^\s:/"'\\]{{0,99}}:(?!//)){_PASSWORD}"""

_CLIENTS = [
    (
        re.compile(rf"(?<![\w-])(?:{name})(?!\w)[^\n\\]*(?:\\[\s\S][^\n\\]*)*"),
        _Rule(re.compile(rf"(?<![\w-]){flag}{value}")),
        count,
    )
    for name, flag, value, count in (
        ("curl", rf"(?:-[a-zA-Z]{{0,9}}[uU]|--(?:proxy-)?user)(?:{_TO_VALUE})?", _USER_AND_PASSWORD, 0),
        ("curl", rf"(?:-[a-zA-Z]{{0,9}}b|--cookie){_TO_VALUE}", rf"(?=[\\\"']*{_COOKIE_NAME}=){_PASSWORD}", 0),
        (r"https?(?=\s)", rf"(?:-a|--auth){_TO_VALUE}", _USER_AND_PASSWORD, 1),
        ("sshpass", rf"-p(?:{_TO_VALUE})?", _PASSWORD, 1),
        (r"(?:docker|podman)(?:\\?[\"'],)?\s+\\?[\"']?login", rf"-p{_TO_VALUE}", _PASSWORD, 1),
        ("(?:mysql|mariadb)(?:-?(?:admin|dump|import|show|check))?", "-p", _PASSWORD, 1),
        ("redis-cli", rf"-a{_TO_VALUE}", _PASSWORD, 1),
        ("mongo(?:sh|dump|restore|export|import)?", rf"-p{_TO_VALUE}", _PASSWORD, 1),
        ("openssl", rf"-pass(?:in|out)?{_TO_VALUE}pass:", _PASSWORD, 0),
        ("openssl enc", rf"-[kK]{_TO_VALUE}", _PASSWORD, 1),
        ("zip", rf"-P{_TO_VALUE}", _PASSWORD, 1),
        ("7z[ar]?", "-p", _PASSWORD, 1),
        (r"az\s+login", rf"-p{_TO_VALUE}", _PASSWORD, 1),
        (r"vault(?=\s+login)", r"login\s+(?:-no-print\s+)?", _PASSWORD, 1),
        ("smbclient", rf"-U{_TO_VALUE}[\"']?[^\s%]{{1,99}}%", _PASSWORD, 1),
        ("ldap[a-z]{3,9}", rf"-w{_TO_VALUE}", _PASSWORD, 1),
    )
]
"""Command lines of clients that take a password by a flag with another name; this flag with its value; and how many of
them are replaced, 0 for all. After the first one, ``-p`` may belong to another program."""

_TOKENS = r"""
gh[pousr]_\w{20,} github_pat_\w{20,} gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[\w-]{16,} hf_[A-Za-z0-9]{20,}
api_org_[A-Za-z0-9]{20,} wandb_v1_\w{20,} nvapi-[\w-]{16,} r8_\w{30,} sk-(?=[\w-]{0,200}\d)[\w-]{20,}
gsk_[A-Za-z0-9]{30,} xai-[A-Za-z0-9]{30,} pplx-[A-Za-z0-9]{30,} xox[abeprs]-[\w-]{10,} xapp-[\w-]{20,}
hooks\.slack\.com/(?:services|workflows)/[\w/]{20,} (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16} AIza[\w-]{30,}
ya29\.[\w-]{20,} GOCSPX-[\w-]{20,} [\w~.-]{3}8Q~[\w~.-]{31,} (?<![/+-])[A-Za-z0-9+/]{86}==
discord(?:app)?\.com/api/webhooks/\d+/[\w-]{16,} pypi-[\w-]{16,} npm_[A-Za-z0-9]{36} dckr_(?:pat|oat)_[\w-]{16,}
do[por]_v1_[a-f0-9]{40,} [rs]k_(?:live|test)_[A-Za-z0-9]{16,} whsec_\w{16,} SG\.[\w-]{16,}\.[\w-]{16,}
(?:bot)?\d{8,10}:AA[\w-]{33} gl(?:sa|c)_[\w=+/-]{20,} AT[AC]TT3x[\w=-]{20,} sq0[a-z]{3}-[\w-]{20,}
EAA[A-Za-z0-9]{24,} key-[a-f0-9]{32} [a-f0-9]{32}-us\d{1,2}(?!\d) dapi[a-f0-9]{32}(?:-\d)?
PMAK-[a-f0-9]{24}-[a-f0-9]{30,} (?:nfp|ntn|rpa|figd|vercel|secret)_(?=[A-Za-z]*\d)\w{20,} (?:sbp_|pul-)[a-f0-9]{40}
tgp_v1_[\w-]{20,} fw_(?=[A-Za-z]*\d)[A-Za-z0-9]{20,} lsv2_[a-z]{2}_[a-f0-9_]{32,}
(?:[\w-]{1,60}\.webhook\.office\.com/webhookb2|outlook\.office\.com/webhook)/[\w@/-]{40,} hv[sbr]\.[\w-]{20,}
tskey-[a-z]+-[\w-]{16,} lin_api_\w{20,} shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32} AGE-SECRET-KEY-1[A-Z0-9]{50,}
(?<!-)eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}
"""
"""Tokens that can be recognized by their prefix or their form, separated by white space."""

_KEY_BEGINS = r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_KEY_ENDS = r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"

_LONGEST_KEY = 1 << 14
"""Number of characters of a log that wait for the end of a private key."""

_IN_BRACES = _Rule(
    re.compile(
        rf"(?i)[{{,][ \t]*[\w.-]*(?P<name>{_ENDING}):[ \t]+(?P<secret>{_BRACKETS}|[^\s,}}\]\"'\\\[{{][^\n,}}\]]*)"
    ),
    _has_secret,
)
"""``{password: …, seed: 3}``, as in YAML."""

_NAME_IN_TEXT = re.compile(rf"(?i){_ENDING}(?!\w)")

_AFTER_NAME = tuple(
    re.compile(form)
    for form in (
        # {"name": "API_KEY", "value": "…"}
        rf"(?:{_MARK})?[\s,]+(?:{_MARK})?value(?P<close>{_MARK})?\s*[:=]\s*(?P<secret>{_QUOTED}|[^\s,}}]+)",
        # --api_key=…, agent.token=…, ?access_token=…&, TOKEN: str = "…", environ["TOKEN"] = "…", password = (⏎ "…")
        rf"(?P<close>{_MARK})?\]?(?:[ \t]*:[ \t]*(?:str|bytes)(?:[ \t]*\|[ \t]*None)?)?"
        rf"[ \t]*(?P<code>:=|=>|=(?!=))[ \t]*(?:\(\s*[-+]?\s*)?"
        rf"(?P<secret>{_ITEM}|{_BRACKETS}|(?:[^\s&,;]|[,;](?![\w .-]{{1,40}}=))+)",
        # "password": "…"
        rf"(?P<close>{_MARK})\s*:\s*(?P<secret>{_ITEM}|{_BRACKETS}|[^\s\"'\[{{][^\n,}}\]]*)",
        # password: … to the end of the line, as in YAML
        rf"(?P<close>)\n?[ \t]*:[ \t]+(?P<secret>{_ITEM}|[^\n]+)",
        # setdefault("TOKEN", "…") and ["--password", "…"]
        rf"(?P<close>{_MARK}),\s*(?P<secret>{_QUOTED})",
        # <password>…</password>
        r"(?P<close>)>(?P<secret>[^<>\n]+)(?=</)",
    )
)
"""What follows a name of a secret. The first form that matches tells."""


def _without_named(text: str) -> str:
    """Return a text without the values of names of secrets."""
    parts, end = [], 0
    for name in _NAME_IN_TEXT.finditer(text):
        if name.start() < end:
            continue
        found = next(filter(None, (form.match(text, name.end()) for form in _AFTER_NAME)), None)
        if found and _is_secret(name[0], found["secret"], code=bool(found.groupdict().get("code"))):
            parts += [text[end : found.start("secret")], _hidden_text(found["secret"], found["close"])]
            end = found.end("secret")
    return "".join([*parts, text[end:]])


_RULES = (
    _Rule(re.compile(rf"(?P<secret>{_KEY_BEGINS}[\s\S]*?(?:{_KEY_ENDS}|\Z))")),
    _Rule(re.compile(r"Private-Lines: \d+(?!\d|\n\S*:|\Z)(?P<secret>[\s\S]+?)(?=\n\S*:|\Z)")),  # PuTTY
    # Headers. All cookies count as secrets, because their names do not tell.
    _Rule(
        re.compile(
            rf"""(?i)\b(?:proxy-)?authorization(?:{_MARK})?\s*[:=,]\s*(?:{_MARK})?"""
            r"""(?P<secret>(?:[^"'\\\n]|(?<==)"[^"\n]*"|(?<==)\\"[^"\\\n]*\\"){8,})"""
        )
    ),
    _Rule(re.compile(r"(?i)\bbearer\s+(?P<secret>[^\s\"'\\]{8,})")),
    _Rule(
        re.compile(rf"(?i)\b(?:set-)?cookie(?:{_MARK})?[ \t]*[:,][ \t]*{_MARK}(?P<secret>{_COOKIE_NAME}=[^\"'\\\n]*)")
    ),
    _Rule(
        re.compile(
            rf"""(?i)\b(?:set-)?cookie:[ \t]*(?P<secret>{_COOKIE_NAME}=(?:"[^"\n]*"(?=[;\s]|$)|[^;"'\\\n]*)"""
            rf"""(?:;[ \t]*(?:{_COOKIE_NAME}(?:="[^"\n]*"(?=[;\s]|$)|=[^;"'\\\n]*)?)?)*)"""
        )
    ),
    # Signatures in addresses, which give access to everyone who has the address.
    _Rule(
        re.compile(
            r"(?i)(?:[?&;\s]|\\u0026)(?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))="
            r"(?P<secret>[^&\s\"'\\;]{8,})"
        )
    ),
    _Rule(re.compile(rf"(?i)[?&#;]code={_RANDOM}"), lambda found: looks_random(found["secret"])),
    # --password …, and \ at the end of its line
    _Rule(
        re.compile(
            rf"""(?i)(?:^|[\s"'])-{{1,2}}(?P<name>{_SECRET_NAME})(?:[ \t]*\\\n|\s)\s*"""
            rf"""(?!-[-\w](?:\s|$)|--|-?\d+\s|\\\s|=\s)(?P<secret>{_ITEM}|\S+)"""
        ),
        _has_secret,
    ),
    # setenv TOKEN …, ENV TOKEN …, aws configure set aws_secret_access_key …
    _Rule(
        re.compile(
            rf"(?i)\b(?:setenv|set|env|config)(?:[ \t]+-{{1,2}}\w+)?[ \t]+(?P<name>[\w.-]{{0,99}}{_ENDING})[ \t]+"
            rf"(?P<secret>{_QUOTED}|\S+)"
        ),
        _has_secret,
    ),
    # auth=("me", "…"), as in requests
    _Rule(re.compile(rf"\bauth\s*=\s*\(\s*[\"'][^\"'\n]{{0,99}}[\"'],\s*(?P<secret>{_QUOTED})")),
    # .netrc
    _Rule(re.compile(r"(?i)\b(?:login|machine)\s+[^\s:]+\s+password\s+(?P<secret>\S+)")),
    _Rule(re.compile(r"://[^\s/:@]*:(?P<secret>[^\s/]+)@")),
    _Rule(re.compile(r"://[^\s/:@]*:(?!\d{1,5}/)(?P<secret>[^\s\"'@]{1,256})@")),
    # A token in place of a user name.
    _Rule(re.compile(r"://(?=[^\s/:@]*\d)(?P<secret>[^\s/:@]{16,})@")),
    _Rule(re.compile(rf"(?<![A-Za-z0-9])(?P<secret>{'|'.join(_TOKENS.split())})")),
    _Rule(
        re.compile(
            rf"(?i){_HINT}(?:_\w{{1,30}}?)?(?:{_MARK})?\]?(?:\s*(?::=|=>|[:=,(])\s*|\s+(?:is\s+|=\s+)?)"
            rf"(?:--?\w+\s+)?(?:{_MARK})?{_RANDOM}"
        ),
        _follows_hint,
    ),
)
"""What is replaced, in this order."""

_BEGINS_BLOCK = re.compile(
    rf"(?im)^(?P<indent>[-+ \t]*+)(?:{_MARK})?[\w.-]*(?P<name>{_ENDING})(?:{_MARK})?[ \t]*:"
    r"(?:[ \t]+|$)(?P<value>[^\n]*)"
)
"""A line of a name in YAML, whose value may continue in lines that are indented further."""


def _without_blocks(text: str) -> str:
    """Return a text without values of several indented lines: ``private_key: |``, lists, mappings and long texts."""
    parts, end = [], 0
    for found in _BEGINS_BLOCK.finditer(text):
        if found.start() < end:
            continue
        value = found["value"].strip()
        deeper = rf"[-+ \t]{{{len(found['indent']) + 1},}}"
        first = re.compile(rf"\n(?:[ \t]*\n)*{deeper}(?P<line>[^\n]*)").match(text, found.end())
        if not first or value.endswith((",", "(")) or _HARMLESS.fullmatch(value):
            continue
        if not value and found["name"].lower().endswith("token") and re.match(r"[^\s:]+:(?:\s|$)", first["line"]):
            continue  # ``use_token:`` and its settings
        block = re.compile(rf"(?:\n{deeper}[^\n]*|\n[ \t]*(?=\n))*+").match(text, found.end())
        assert block is not None
        inner = {"{": f'{{"{REDACTED}": null', "[": f'["{REDACTED}"'}.get(value[-1:], REDACTED)
        space = "" if found[0].endswith((" ", "\t")) or value else " "
        parts += [text[end : found.start("value")], space, inner]
        end = block.end()
    return "".join([*parts, text[end:]])


_PIECE_CHARACTERS = 1 << 22
"""Number of characters of a file that are searched together, extended to the end of a line."""


def _spellings(value: str) -> set[str]:
    """Return a value as it stands in plain text, JSON, Python, addresses and shells."""
    return {value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value, safe=""), shlex.quote(value)}


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
            if _NAME.match(key) or (_HINTING_NAME.match(key) and looks_random(value))
        }
        values |= {
            value for flag, value in pairwise(command) if _SECRET_FLAG.match(flag) and not value.startswith("--")
        }
        values |= {found[1] for each in command if (found := _SECRET_ARGUMENT.fullmatch(each))}
        secrets = {value for value in values if len(value) >= _LEAST_LENGTH and not _WORD.fullmatch(value)}
        longest_first = sorted(set().union(*map(_spellings, secrets)), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return a text without its secrets."""
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        text = _without_blocks(text)
        for client, password, count in _CLIENTS:
            text = client.sub(lambda found: password.apply(found[0], count), text)  # noqa: B023 - called before the next turn
        text = _without_named(_IN_BRACES.apply(text))
        for rule in _RULES:
            text = rule.apply(text)
        return text

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
                REDACTED if after_flag and isinstance(each, str) and not each.startswith("--") else self.value(each)
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


def redact_files(paths: Iterable[Path]) -> None:
    """Replace secrets in other text files beside a journal: logs, profiles.

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
        with whole_file(path) as clean:
            with clean.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.writelines(map(redactor.text, _pieces(path)))
            shutil.copymode(path, clean)


class RedactedStream(io.TextIOBase):
    """Writes text without secrets, whole lines at a time, into another stream."""

    def __init__(self, stream: TextIO) -> None:
        """Take the stream."""
        self._stream, self._redactor, self._begun = stream, Redactor(), ""

    def write(self, text: str) -> int:
        """Write the complete lines; keep the beginning of the next line, and a private key until it is complete."""
        *lines, begun = (self._begun + text).split("\n")
        if len(self._begun) < _LONGEST_KEY and _has_unfinished_key("\n".join(lines)):
            self._begun += text
            return len(text)
        self._begun = begun
        if lines:
            self._stream.write(self._redactor.text("\n".join(lines)) + "\n")
            self._stream.flush()
        return len(text)

    def finish(self) -> None:
        """Write the last line, which has no newline."""
        self._stream.write(self._redactor.text(self._begun))
        self._begun = ""
        self._stream.flush()


def _has_unfinished_key(text: str) -> bool:
    """Return whether the last private key of a text has no end yet."""
    begins = [found.end() for found in re.finditer(_KEY_BEGINS, text)]
    return bool(begins) and not re.search(_KEY_ENDS, text[begins[-1] :])


def _pieces(path: Path) -> Iterator[str]:
    """Yield a text in parts of many whole lines."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        while lines := file.readlines(_PIECE_CHARACTERS):
            yield "".join(lines)
