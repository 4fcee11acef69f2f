"""Prints the entries of a lock file that some sections of its requirements need.

A section of the requirements begins with a comment after an empty line; its name is the first word of that comment. The
lock file tells, after `# via`, what needs each of its packages.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def sections(requirements: str) -> dict[str, set[str]]:
    """Return the packages that requirements name, by section.

    Args:
        requirements: Text of a requirements file.
    """
    found: dict[str, set[str]] = {}
    for block in re.split(r"\n\s*\n", requirements):
        heading, *lines = block.strip().splitlines()
        names = [match[0].lower() for line in lines if (match := _NAME.match(line))]
        if names and (title := _NAME.search(heading)):
            found[title[0]] = set(names)
    return found


def entries(lock: str) -> dict[str, str]:
    """Return the entries of a lock file, by package.

    Args:
        lock: Text of a lock file that `uv pip compile` has written.
    """
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]
    return {block.partition("==")[0].partition("[")[0]: block for block in blocks}


def needed(locked: dict[str, str], named: Collection[str], without: Collection[str] = ()) -> list[str]:
    """Return named packages and all that these need, in the order of the lock file.

    Args:
        locked: Entries of the lock file, by package.
        named: Packages.
        without: Packages to leave out, with all that nothing else needs.
    """
    needs: dict[str, list[str]] = {}
    for name, entry in locked.items():
        for by in _NAME.findall(entry.partition("# via")[2].replace("-r tools/requirements/main.in", "")):
            needs.setdefault(by, []).append(name)
    found: set[str] = set()
    waiting = [*named]
    while waiting:
        name = waiting.pop()
        if name in locked and name not in found and name not in without:
            found.add(name)
            waiting += needs.get(name, [])
    return [name for name in locked if name in found]


def main() -> None:
    """Read the files, and print the entries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requirements", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("sections", nargs="+")
    parser.add_argument("--without", nargs="*", default=[], metavar="PACKAGE")
    given = parser.parse_args()
    known, locked = sections(given.requirements.read_text()), entries(given.lock.read_text())
    if unknown := [name for name in given.sections if name not in known]:
        parser.error(f"{given.requirements} has no section {unknown[0]}: choose from {', '.join(known)}")
    if unknown := [name for name in given.without if name not in locked]:
        parser.error(f"{given.lock} has no package {unknown[0]}")
    named = set().union(*(known[name] for name in given.sections))
    print("".join(locked[name] for name in needed(locked, named, given.without)), end="")


if __name__ == "__main__":
    main()
