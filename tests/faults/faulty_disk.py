"""A file system that passes everything on to a folder, and fails as it is told to while programs run on it.

Usage: ``python tests/faults/faulty_disk.py FOLDER MOUNT_POINT FAULT_FILE``. It runs until it is unmounted. Needs Linux,
``/dev/fuse``, root and Debian's package ``fuse3``, whose library is called through ctypes.

The fault file is empty, or holds JSON: ``{"error": "EIO", "names": "journal-*", "operations": ["write", "fsync"]}``. It
is read again at each operation. The kernel keeps no attributes and no names, so a fault shows at the next system call.
"""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_GROWTH = ("mkdir", "symlink", "link", "write", "create", "fallocate")
_CHANGES = (*_GROWTH, "unlink", "rmdir", "rename", "chmod", "truncate", "fsync", "utimens")
_EVERYTHING = (*_CHANGES, "getattr", "readlink", "open", "read", "statfs", "readdir")
OPERATIONS = {
    "ENOSPC": _GROWTH,
    "EDQUOT": _GROWTH,
    "EROFS": _CHANGES,
    "EIO": _EVERYTHING,
    "ESTALE": _EVERYTHING,
}
"""Operations that an error hits unless the fault file names others. After ENOSPC, files can still be removed."""

_WRITABLE = os.O_WRONLY | os.O_RDWR


class _Stat(ctypes.Structure):
    """``struct stat`` of Linux on 64-bit x86, and ``struct timespec``."""

    _fields_ = [
        *((name, ctypes.c_ulong) for name in ("st_dev", "st_ino", "st_nlink")),
        *((name, ctypes.c_uint) for name in ("st_mode", "st_uid", "st_gid", "_padding")),
        *((name, ctypes.c_ulong) for name in ("st_rdev", "st_size", "st_blksize", "st_blocks")),
        *((f"{time}_{unit}", ctypes.c_ulong) for time in ("atime", "mtime", "ctime") for unit in ("s", "ns")),
        ("_reserved", ctypes.c_long * 3),
    ]


class _FileInfo(ctypes.Structure):
    """``struct fuse_file_info`` of libfuse 3."""

    _fields_ = [
        ("flags", ctypes.c_int),
        ("_bits", ctypes.c_uint),
        ("_padding", ctypes.c_uint),
        ("handle", ctypes.c_uint64),
        ("_lock_owner", ctypes.c_uint64),
        ("_poll_events", ctypes.c_uint32),
    ]


class _StatVfs(ctypes.Structure):
    """``struct statvfs`` of glibc on 64-bit systems."""

    _fields_ = [
        *((name, ctypes.c_ulong) for name in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail")),
        *((name, ctypes.c_ulong) for name in ("f_files", "f_ffree", "f_favail", "_f_fsid", "f_flag", "f_namemax")),
        ("_reserved", ctypes.c_int * 6),
    ]


_path, _int, _mode, _offset, _size = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_long, ctypes.c_size_t
_info, _data, _times = ctypes.POINTER(_FileInfo), ctypes.POINTER(ctypes.c_char), ctypes.POINTER(ctypes.c_long)
_stat, _statvfs = ctypes.POINTER(_Stat), ctypes.POINTER(_StatVfs)
_Filler = ctypes.CFUNCTYPE(_int, ctypes.c_void_p, _path, ctypes.c_void_p, _offset, _int)

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "getattr": (_path, _stat, _info),
    "readlink": (_path, _data, _size),
    "mknod": (),
    "mkdir": (_path, _mode),
    "unlink": (_path,),
    "rmdir": (_path,),
    "symlink": (_path, _path),
    "rename": (_path, _path, _mode),
    "link": (_path, _path),
    "chmod": (_path, _mode, _info),
    "chown": (),
    "truncate": (_path, _offset, _info),
    "open": (_path, _info),
    "read": (_path, _data, _size, _offset, _info),
    "write": (_path, _data, _size, _offset, _info),
    "statfs": (_path, _statvfs),
    "flush": (_path, _info),
    "release": (_path, _info),
    "fsync": (_path, _int, _info),
    **dict.fromkeys(("setxattr", "getxattr", "listxattr", "removexattr", "opendir"), ()),
    "readdir": (_path, ctypes.c_void_p, _Filler, _offset, _info, _int),
    "releasedir": (),
    "fsyncdir": (_path, _int, _info),
    **dict.fromkeys(("init", "destroy", "access"), ()),
    "create": (_path, _mode, _info),
    "lock": (),
    "utimens": (_path, _times, _info),
    **dict.fromkeys(("bmap", "ioctl", "poll", "write_buf", "read_buf", "flock"), ()),
    "fallocate": (_path, _int, _offset, _offset, _info),
    **dict.fromkeys(("copy_file_range", "lseek"), ()),
}
"""Members of ``struct fuse_operations`` of libfuse 3, in order; those without a signature are left out."""


class FaultyDisk:
    """The operations of the file system."""

    def __init__(self, folder: Path, fault_file: Path) -> None:
        """Pass everything on to a folder."""
        self._folder, self._fault_file = os.fsencode(folder), fault_file

    def _error(self, operation: str, path: bytes) -> int | None:
        """Return the error that the fault file asks for; ``None`` if there is none."""
        if not (text := self._fault_file.read_text()):
            return None
        fault = json.loads(text)
        hit = operation in fault.get("operations", OPERATIONS[fault["error"]])
        named = fnmatch.fnmatch(os.path.basename(os.fsdecode(path)), fault.get("names", "*"))
        return getattr(errno, fault["error"]) if hit and named else None

    def _at(self, path: bytes) -> bytes:
        return self._folder + path

    def getattr(self, path: bytes, to: Any, info: Any) -> None:
        """Fill in the attributes of a file."""
        found = os.fstat(info[0].handle) if info else os.lstat(self._at(path))
        for name in ("st_dev", "st_ino", "st_nlink", "st_mode", "st_uid", "st_gid", "st_rdev", "st_size", "st_blksize"):
            setattr(to[0], name, getattr(found, name))
        to[0].st_blocks = found.st_blocks
        for time in ("atime", "mtime", "ctime"):
            seconds, nanoseconds = divmod(getattr(found, f"st_{time}_ns"), 10**9)
            setattr(to[0], f"{time}_s", seconds)
            setattr(to[0], f"{time}_ns", nanoseconds)

    def readlink(self, path: bytes, to: Any, size: int) -> None:
        """Fill in where a symbolic link leads."""
        target = os.readlink(self._at(path))[: size - 1]
        ctypes.memmove(to, target + b"\0", len(target) + 1)

    def mkdir(self, path: bytes, mode: int) -> None:
        """Make a folder."""
        os.mkdir(self._at(path), mode)

    def unlink(self, path: bytes) -> None:
        """Remove a file."""
        os.unlink(self._at(path))

    def rmdir(self, path: bytes) -> None:
        """Remove a folder."""
        os.rmdir(self._at(path))

    def symlink(self, target: bytes, path: bytes) -> None:
        """Make a symbolic link."""
        os.symlink(target, self._at(path))

    def link(self, path: bytes, new: bytes) -> None:
        """Give a file a second name."""
        os.link(self._at(path), self._at(new))

    def rename(self, path: bytes, new: bytes, flags: int) -> None:
        """Rename a file."""
        if flags:
            raise OSError(errno.EINVAL, "flags")
        os.rename(self._at(path), self._at(new))

    def chmod(self, path: bytes, mode: int, info: Any) -> None:
        """Set permissions."""
        os.chmod(self._at(path), mode)

    def truncate(self, path: bytes, length: int, info: Any) -> None:
        """Cut or lengthen a file."""
        os.truncate(info[0].handle if info else self._at(path), length)

    def open(self, path: bytes, info: Any) -> None:
        """Open a file; on a read-only file system not for writing."""
        if info[0].flags & _WRITABLE and self._error("truncate", path) == errno.EROFS:
            raise OSError(errno.EROFS, "as told")
        info[0].handle = os.open(self._at(path), info[0].flags & ~os.O_APPEND)

    def create(self, path: bytes, mode: int, info: Any) -> None:
        """Create and open a file."""
        info[0].handle = os.open(self._at(path), info[0].flags | os.O_CREAT, mode)

    def read(self, path: bytes, to: Any, size: int, offset: int, info: Any) -> int:
        """Read some bytes."""
        data = os.pread(info[0].handle, size, offset)
        ctypes.memmove(to, data, len(data))
        return len(data)

    def write(self, path: bytes, data: Any, size: int, offset: int, info: Any) -> int:
        """Write some bytes."""
        return os.pwrite(info[0].handle, ctypes.string_at(data, size), offset)

    def statfs(self, path: bytes, to: Any) -> None:
        """Fill in the figures of the file system."""
        found = os.statvfs(self._at(path))
        for name in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail"):
            setattr(to[0], name, getattr(found, name))
        to[0].f_namemax = found.f_namemax

    def flush(self, path: bytes, info: Any) -> None:
        """Hear that a program closes a file."""

    def release(self, path: bytes, info: Any) -> None:
        """Close a file."""
        os.close(info[0].handle)

    def fsync(self, path: bytes, only_data: int, info: Any) -> None:
        """Synchronize a file."""
        os.fsync(info[0].handle)

    def fsyncdir(self, path: bytes, only_data: int, info: Any) -> None:
        """Synchronize a folder, which is left out."""

    def readdir(self, path: bytes, buffer: int, fill: Any, offset: int, info: Any, flags: int) -> None:
        """List a folder."""
        for name in (b".", b"..", *os.listdir(self._at(path))):
            fill(buffer, name, None, 0, 0)

    def utimens(self, path: bytes, times: Any, info: Any) -> None:
        """Set times to now."""
        os.utime(self._at(path))

    def fallocate(self, path: bytes, mode: int, offset: int, length: int, info: Any) -> None:
        """Reserve space."""
        if mode:
            raise OSError(errno.EOPNOTSUPP, "mode")
        os.posix_fallocate(info[0].handle, offset, length)

    def called_by_c(self, operation: str) -> Callable[..., int]:
        """Return an operation that returns its error as the library expects it."""
        carry_out = getattr(self, operation)

        def call(*arguments: Any) -> int:
            try:
                failed = self._error("fsync" if operation == "fsyncdir" else operation, arguments[0] or b"")
                return -failed if failed else carry_out(*arguments) or 0
            except OSError as error:
                return -(error.errno or errno.EIO)
            except BaseException as error:  # noqa: BLE001 - nothing can be raised through C
                print(f"{operation}: {error!r}", file=sys.stderr, flush=True)
                return -errno.ENOSYS

        return call


def serve(disk: FaultyDisk, mount_point: str, options: str) -> int:
    """Serve a file system until it is unmounted.

    Args:
        disk: Its operations.
        mount_point: Where it is mounted.
        options: Options of the library, separated by commas.

    Returns:
        The exit status.
    """
    types = {
        name: ctypes.CFUNCTYPE(_int, *arguments) if arguments else ctypes.c_void_p
        for name, arguments in _SIGNATURES.items()
    }
    Operations = type("Operations", (ctypes.Structure,), {"_fields_": list(types.items())})  # noqa: N806 - a class
    served = {name: types[name](disk.called_by_c(name)) for name, arguments in _SIGNATURES.items() if arguments}
    operations = Operations(**served)
    arguments = [type(disk).__name__.encode(), b"-f", b"-s", b"-o", options.encode(), os.fsencode(mount_point)]
    fuse = ctypes.CDLL("libfuse3.so.3")
    fuse.fuse_main_real.argtypes = (_int, ctypes.POINTER(_path), ctypes.c_void_p, _size, ctypes.c_void_p)
    return int(
        fuse.fuse_main_real(
            len(arguments),
            (_path * len(arguments))(*arguments),
            ctypes.byref(operations),
            ctypes.sizeof(operations),
            None,
        )
    )


def main(folder: str, mount_point: str, fault_file: str) -> int:
    """Serve the file system until it is unmounted."""
    options = "attr_timeout=0,entry_timeout=0,negative_timeout=0,default_permissions"
    return serve(FaultyDisk(Path(folder), Path(fault_file)), mount_point, options)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
