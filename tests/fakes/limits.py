"""Limits that the kernel sets for real: a tiny file system, a small share of memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


def tiny_disk(folder: Path, size: str, kept: Path | None = None) -> Sequence[str]:
    """Return how a program is started for which a folder is a file system of its own; skip where none can be mounted.

    Args:
        folder: The folder, which is made.
        size: Its size, as tmpfs takes it.
        kept: Where its files are copied to when the program has ended; they are gone afterwards.
    """
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={size} tmpfs "{folder}"'
    copy = "" if kept is None else f'cp -r "{folder}/." "{kept}"; '
    for flags in ("-rm", "-m"):
        shell = ["unshare", flags, "sh", "-c"]
        if (
            shutil.which("unshare")
            and subprocess.run([*shell, mount], capture_output=True, check=False).returncode == 0
        ):
            return [*shell, f'{mount} && "$@"; status=$?; {copy}exit $status', "sh"]
    pytest.skip("no tiny file system can be mounted here: that needs user namespaces or root")


@contextmanager
def little_memory(limit_bytes: int) -> Iterator[Sequence[str]]:
    """Yield how a program is started that the kernel kills beyond a limit; skip where no control group can be made."""
    group = Path("/sys/fs/cgroup/memory", f"ledger-lab-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
    except OSError:
        pytest.skip("no control group for memory can be made here")
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        group.rmdir()
