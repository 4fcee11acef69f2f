"""One host of a shared file system, with the semantics of NFS: what others write appears late, and in any order.

Usage: ``python tests/faults/shared_disk.py FOLDER MOUNT_POINT SWITCHES [CACHE_S]``. The folder is the file server. Each
mount is a host. It runs until it is unmounted. It stands in for NFS (RFC 1813, nfs(5)) where the kernel has none:

- Written pages wait on the host. They reach the server at ``fsync``, when the file is closed, or after a while, and
  the last page first: until then, others see a file whose beginning is missing, as zeros.
- The kernel keeps attributes, names, and names that do not exist, for ``CACHE_S``; this program keeps listings of
  folders. A host sees its own changes at once, and those of others late.
- A file that another host has removed is stale.
- Times are those of the server's clock.

The file of switches is empty or holds JSON, and is read again at each operation: ``hold`` keeps all written pages but
the last on the host, ``freeze`` keeps listings of folders, ``clock_ahead_s`` moves the clock of the server, ``refuse``
lists operations that the server does not have, with the name of the error.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.faulty_disk import FaultyDisk, serve

PAGE = 4096
WRITTEN_BACK_S = 0.2
"""Time after which written pages go to the server [s]; Linux takes 30 s."""


@dataclass
class _Waiting:
    """Written bytes of one file that the server does not have."""

    descriptor: int
    """Descriptor of the file, for writing."""
    since_s: float = field(default_factory=time.monotonic)
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    """Offset and content, each within one page, in the order of writing."""

    @property
    def end(self) -> int:
        """Size of the file as this host knows it [B]."""
        return max((offset + len(piece) for offset, piece in self.pieces), default=0)


class SharedDisk(FaultyDisk):
    """The operations of one host."""

    def __init__(self, folder: Path, switches: Path, cache_s: float) -> None:
        """Serve a folder.

        Args:
            folder: The folder.
            switches: File of switches.
            cache_s: How long listings are kept [s].
        """
        super().__init__(folder, switches)
        self._cache_s = cache_s
        self._waiting: dict[int, _Waiting] = {}
        self._listings: dict[bytes, tuple[float, list[str]]] = {}
        self._lock = threading.RLock()
        threading.Thread(target=self._write_back, daemon=True).start()

    def _switches(self) -> dict[str, Any]:
        """Return the switches."""
        text = self._fault_file.read_text()
        return json.loads(text) if text else {}

    def _error(self, operation: str, path: bytes) -> int | None:
        """Return the error of an operation that the server does not have."""
        name = self._switches().get("refuse", {}).get(operation)
        return getattr(errno, name) if name else None

    def _write_back(self) -> None:
        """Send pages to the server that have waited long enough."""
        while True:
            time.sleep(WRITTEN_BACK_S / 2)
            with self._lock:
                for inode, waiting in list(self._waiting.items()):
                    if time.monotonic() - waiting.since_s > WRITTEN_BACK_S:
                        self._send(inode, everything=False)

    def _send(self, inode: int, *, everything: bool = True) -> None:
        """Send the pages of a file, the last one first.

        Args:
            inode: The file.
            everything: Whether all of them must arrive.
        """
        if (waiting := self._waiting.get(inode)) is None:
            return
        last = max(offset // PAGE for offset, _ in waiting.pieces)
        hold = not everything and self._switches().get("hold", False)
        kept = [each for each in waiting.pieces if hold and each[0] // PAGE < last]
        for page in range(last, -1, -1):
            for offset, piece in waiting.pieces:
                if offset // PAGE == page and (offset, piece) not in kept:
                    os.pwrite(waiting.descriptor, piece, offset)
        waiting.pieces = kept
        if not kept:
            os.close(self._waiting.pop(inode).descriptor)

    def _forget_listing(self, *paths: bytes) -> None:
        """Forget the listings of the folders that this host changes."""
        for path in paths:
            self._listings.pop(os.path.dirname(path), None)

    def getattr(self, path: bytes, to: Any, info: Any) -> None:
        """Fill in the attributes of a file."""
        if info and os.fstat(info[0].handle).st_nlink == 0:
            raise OSError(errno.ESTALE, "removed")
        super().getattr(path, to, info)
        if waiting := self._waiting.get(to[0].st_ino):
            to[0].st_size = max(to[0].st_size, waiting.end)
        if ahead_s := self._switches().get("clock_ahead_s", 0):
            for each in ("atime", "mtime", "ctime"):
                setattr(to[0], f"{each}_s", getattr(to[0], f"{each}_s") + ahead_s)

    def read(self, path: bytes, to: Any, size: int, offset: int, info: Any) -> int:
        """Read some bytes, with those that this host has written."""
        found = os.fstat(info[0].handle)
        if found.st_nlink == 0:
            raise OSError(errno.ESTALE, "removed")
        data = os.pread(info[0].handle, size, offset)
        if waiting := self._waiting.get(found.st_ino):
            whole = bytearray(data.ljust(max(0, min(size, waiting.end - offset)), b"\0"))
            for begin, piece in waiting.pieces:
                at = begin - offset
                cut = piece[max(0, -at) : max(0, size - at)]
                whole[max(0, at) : max(0, at) + len(cut)] = cut
            data = bytes(whole)
        ctypes.memmove(to, data, len(data))
        return len(data)

    def write(self, path: bytes, data: Any, size: int, offset: int, info: Any) -> int:
        """Keep some bytes for the server."""
        inode = os.fstat(info[0].handle).st_ino
        if inode not in self._waiting:
            self._waiting[inode] = _Waiting(os.open(self._at(path), os.O_WRONLY))
        content, pieces = data[:size], self._waiting[inode].pieces
        while content:
            room = PAGE - offset % PAGE
            pieces.append((offset, content[:room]))
            content, offset = content[room:], offset + room
        return size

    def truncate(self, path: bytes, length: int, info: Any) -> None:
        """Cut or lengthen a file."""
        self._send(os.stat(self._at(path)).st_ino)
        super().truncate(path, length, info)

    def flush(self, path: bytes, info: Any) -> None:
        """Send everything, because a program closes the file."""
        self._send(os.fstat(info[0].handle).st_ino)

    def fsync(self, path: bytes, only_data: int, info: Any) -> None:
        """Send everything, and synchronize it there."""
        self._send(os.fstat(info[0].handle).st_ino)
        super().fsync(path, only_data, info)

    def fsyncdir(self, path: bytes, only_data: int, info: Any) -> None:
        """Synchronize a folder: the server has done it already."""
        if error := self._error("fsyncdir", path):
            raise OSError(error, "as told")

    def readdir(self, path: bytes, buffer: int, fill: Any, offset: int, info: Any, flags: int) -> None:
        """List a folder, as it was a short time ago."""
        seen_s, names = self._listings.get(path, (0.0, []))
        is_old = time.monotonic() - seen_s > self._cache_s and not self._switches().get("freeze", False)
        if is_old or not seen_s:
            names = os.listdir(self._at(path))
            self._listings[path] = (time.monotonic(), names)
        for name in (b".", b"..", *names):
            fill(buffer, name, None, 0, 0)

    def mkdir(self, path: bytes, mode: int) -> None:
        """Make a folder."""
        super().mkdir(path, mode)
        self._forget_listing(path)

    def create(self, path: bytes, mode: int, info: Any) -> None:
        """Create and open a file."""
        super().create(path, mode, info)
        self._forget_listing(path)

    def link(self, path: bytes, new: bytes) -> None:
        """Give a file a second name."""
        super().link(path, new)
        self._forget_listing(new)

    def symlink(self, target: bytes, path: bytes) -> None:
        """Make a symbolic link."""
        super().symlink(target, path)
        self._forget_listing(path)

    def unlink(self, path: bytes) -> None:
        """Remove a file."""
        super().unlink(path)
        self._forget_listing(path)

    def rmdir(self, path: bytes) -> None:
        """Remove a folder."""
        super().rmdir(path)
        self._forget_listing(path)

    def rename(self, path: bytes, new: bytes, flags: int) -> None:
        """Rename a file."""
        super().rename(path, new, flags)
        self._forget_listing(path, new)

    def called_by_c(self, operation: str) -> Any:
        """Return an operation, during which no page is written back."""
        call = super().called_by_c(operation)

        def locked(*arguments: Any) -> int:
            with self._lock:
                return call(*arguments)

        return locked


def main(folder: str, mount_point: str, switches: str, cache_s: str = "0.5") -> int:
    """Serve the file system until it is unmounted."""
    timeouts = ",".join(f"{what}_timeout={cache_s}" for what in ("attr", "entry", "negative"))
    options = f"{timeouts},ac_attr_timeout=0,auto_cache,noforget,default_permissions,subtype=shared"
    return serve(SharedDisk(Path(folder), Path(switches), float(cache_s)), mount_point, options)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
