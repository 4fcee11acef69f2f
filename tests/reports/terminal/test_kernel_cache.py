"""A cache of compiled kernels that would end every simulation is named before a program imports Warp."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.script import require_kernel_cache


def test_a_home_that_cannot_be_written_ends_a_program_in_one_line() -> None:
    program = "import ledger_lab.reports.terminal.script as own; own.run_script(own.imported_later('os:_exit'))"
    ended = subprocess.run([sys.executable, "-c", program], env={"HOME": "/proc/home"}, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "error: compiled kernels can't be kept in /proc/home/.cache/warp (No such file or directory): set "
        "WARP_CACHE_PATH to a writable folder\n"
    )


def test_an_existing_folder_that_can_be_neither_written_nor_used_is_named(tmp_path: Path) -> None:
    with patch("os.access", return_value=False), pytest.raises(UserError, match="kept in .* .Permission denied.: set"):
        require_kernel_cache({"WARP_CACHE_PATH": str(tmp_path)})


def test_an_empty_kernel_is_named_with_its_cache(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path)}
    kernels = require_kernel_cache(environ)
    assert kernels == tmp_path / "warp" and kernels.is_dir()
    unfinished, kernel = (kernels / "1.17.0" / f"wp_step_a1b2{of}" / "wp_step.o" for of in ("_p12_t34", ""))
    for file, content in ((unfinished, ""), (kernel, "code")):
        file.parent.mkdir(parents=True)
        file.write_text(content)
    assert require_kernel_cache(environ) == kernels, "another process is compiling"
    with patch("os.access", return_value=False):
        assert require_kernel_cache(environ) == kernels, "kernels are there"
    kernel.write_text("")
    with pytest.raises(UserError, match=f"the compiled kernel {kernel} is empty.*: remove {kernels}$"):
        require_kernel_cache(environ)
