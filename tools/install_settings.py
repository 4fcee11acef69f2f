"""Prints arguments of ``env`` that keep of a user's settings of pip and uv only what says where packages come from.

Index, certificates, proxy and cache stay, from variables and from pip.conf and uv.toml. All else goes, such as targets,
constraints and dry runs, which would break an installation. Any Python 3 can run it.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from pathlib import Path
from typing import Any

_PIP = (
    *("index-url", "extra-index-url", "no-index", "find-links", "trusted-host", "keyring-provider", "cache-dir"),
    *("cert", "client-cert", "proxy", "timeout", "default-timeout", "retries"),
)
_UV = re.compile(
    "UV_(DEFAULT_INDEX|INDEX|INDEX_.*|EXTRA_INDEX_URL|NO_INDEX|FIND_LINKS|KEYRING_PROVIDER|CACHE_DIR|LINK_MODE|OFFLINE|"
    "NATIVE_TLS|SYSTEM_CERTS|INSECURE_HOST|ALLOW_INSECURE_HOST|HTTP_.*|CONCURRENT_.*|PYTHON_INSTALL_.*|PYTHON_DOWNLOADS.*)"
)


def _folders(environ: dict[str, str]) -> list[Path]:
    """Return the folders of configuration files, of the system before those of the user."""
    system = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    user = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
    return [Path("/etc"), *map(Path, reversed(system.split(":"))), Path(user)]


def _pip_settings(environ: dict[str, str]) -> dict[str, str]:
    """Return the settings in pip's files, as variables."""
    files = [folder / name for folder in _folders(environ) for name in ("pip.conf", "pip/pip.conf")]
    files += [Path(environ.get("HOME", "/"), ".pip", "pip.conf"), Path(sys.prefix, "pip.conf")]
    files += [Path(environ["PIP_CONFIG_FILE"])] if environ.get("PIP_CONFIG_FILE") else []
    read = configparser.RawConfigParser()
    if environ.get("PIP_CONFIG_FILE") != os.devnull:
        read.read(files, encoding="utf-8")
    found = {}
    for section in ("global", "install"):
        for name, value in read.items(section) if read.has_section(section) else ():
            if name.replace("_", "-") in _PIP:
                found["PIP_" + name.upper().replace("-", "_")] = " ".join(value.split())
    return found


def _uv_settings(environ: dict[str, str]) -> dict[str, str]:
    """Return the settings in uv's files, as variables."""
    try:
        import tomllib
    except ImportError:  # an old Python, which only downloads another one
        return {}
    files = [folder / "uv" / "uv.toml" for folder in _folders(environ)]
    if environ.get("UV_CONFIG_FILE"):
        files = [Path(environ["UV_CONFIG_FILE"])]
    found: dict[str, str] = {}
    for file in files:
        if environ.get("UV_NO_CONFIG") or not file.is_file():
            continue
        read: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        indexes: list[dict[str, Any]] = read.pop("index", [])
        for default in (True, False):
            urls = [
                f"{each['name']}={each['url']}" if "name" in each else each["url"]
                for each in indexes
                if each.get("default", False) is default
            ]
            read |= {"default-index" if default else "index": urls} if urls else {}
        for name, value in {**read, **read.pop("pip", {})}.items():
            variable = "UV_" + name.upper().replace("-", "_").replace("ALLOW_INSECURE", "INSECURE")
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            found[variable] = text.lower() if isinstance(value, bool) else text
    return found


def arguments(environ: dict[str, str]) -> list[str]:
    """Return the arguments of ``env``.

    Args:
        environ: The environment of the user.
    """
    found = {**_pip_settings(environ), **_uv_settings(environ), **environ}
    pip = {"PIP_" + name.upper().replace("-", "_") for name in _PIP}
    kept = {name: value for name, value in found.items() if name in pip or _UV.fullmatch(name)}
    kept |= {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}
    gone = [name for name in environ if name.startswith(("PIP_", "UV_")) and name not in kept]
    return [*(f"--unset={name}" for name in gone), *(f"{name}={value}" for name, value in kept.items())]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{each}\0" for each in arguments(dict(os.environ))))
