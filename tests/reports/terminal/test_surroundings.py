"""Programs work, or refuse in one line, whatever terminal, home, limits and names they meet."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_lab.cli.export import export_ledger
from ledger_lab.cli.report import build_report
from ledger_lab.errors import as_user_error, nearest
from ledger_lab.ledger import cores
from tests.conftest import script
from tests.fakes.ledgers import write_run

NO_FORKS = """
import errno, os
def refuse(*arguments, **options):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
os.fork = refuse
import subprocess
subprocess._fork_exec = refuse
"""


def run(
    name: str, *arguments: str | Path, cwd: Path | None = None, prefix: tuple[str, ...] = (), **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a script with other variables of the environment; those that are ``None`` are missing."""
    root = Path(__file__).parents[3]
    variables = {**os.environ, **environment}
    return subprocess.run(
        [*prefix, sys.executable, str(root / "scripts" / f"{name}.py"), *map(str, arguments)],
        env={name: value for name, value in variables.items() if value is not None},
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def test_a_terminal_of_any_encoding_shows_reports_help_and_errors(tmp_path: Path) -> None:
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    write_run(tmp_path, "aa", cohort="größe-µ-日本")
    report = run("report", "--log_root", tmp_path, **environment)
    assert (report.returncode, report.stderr) == (0, "")
    assert "aa" in report.stdout
    assert run("train", "--help", **environment).returncode == 0
    refused = run("report", "日本", "--log_root", tmp_path, **environment)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_a_user_without_home_and_name_leaves_no_folder_behind(tmp_path: Path) -> None:
    prefix = ("unshare", "-U", "--map-user=54321", "--map-group=54321")
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no user namespace can be made here")
    write_run(tmp_path / "logs", "aa")
    before = set(tmp_path.iterdir())
    nobody: dict[str, str | None] = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOGNAME", "USER"))
    report = run("report", cwd=tmp_path, prefix=prefix, TMPDIR=str(tmp_path / "logs"), **nobody)
    assert (report.returncode, report.stderr) == (0, "")
    assert set(tmp_path.iterdir()) == before
    study = run("study", "~/x.toml", cwd=tmp_path, prefix=prefix, TMPDIR=str(tmp_path / "logs"), **nobody)
    assert (study.returncode, study.stderr.count("\n")) == (2, 1)
    assert set(tmp_path.iterdir()) == before


def test_a_refused_process_start_gives_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_FORKS)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    refused = run("train", "--nproc", "2", cwd=tmp_path, PYTHONPATH=path)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert refused.stderr.splitlines()[-1].startswith("error: ")
    assert "Resource temporarily unavailable" in refused.stderr


@pytest.mark.parametrize("opened", ["/dev/nvidia0", "/dev/nvidia-uvm", "/dev/dxg"])
def test_a_process_that_uses_a_gpu_is_not_forked(opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[int] = []

    def pool(workers: int, *how: object, **more: object) -> None:
        pools.append(workers)
        raise NotImplementedError

    monkeypatch.setattr(cores, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(cores.threading, "active_count", lambda: 1)
    with pytest.raises(NotImplementedError):
        list(cores.map_on_cores(abs, [-1, -2]))
    monkeypatch.setattr(os, "readlink", lambda path: opened)
    assert list(cores.map_on_cores(abs, [-1, -2])) == [1, 2]
    assert pools == [2]


def test_names_that_no_file_can_have_are_refused_in_one_line(tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "aa")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for arguments in (["page", loop, "--log_root", tmp_path / "logs"], ["--log_root", "x" * 10_000]):
        refused = script("report", *arguments)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert len(refused.stderr) < 5000


def test_a_folder_whose_name_is_no_text_is_read_and_nothing_is_exported_into_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / os.fsdecode(b"\xff\xfe")
    write_run(root, "aa")
    assert build_report(["--log_root", str(root)]) == 0
    assert "aa" in capsys.readouterr().out
    with pytest.raises(UnicodeEncodeError):  # which scripts tell in one line
        export_ledger(["--log_root", str(root), "--to", str(root / "out")])
    assert not (root / "out").exists()


def test_limits_of_the_system_are_errors_of_the_user_and_other_errors_are_not() -> None:
    assert as_user_error(ValueError("embedded null byte")) is not None
    assert as_user_error(OSError(errno.ENAMETOOLONG, "File name too long", "x")) is not None
    assert as_user_error(RuntimeError("can't start new thread")) is not None
    assert nearest("zzzz", [f"{number:016x}" for number in range(30_000)]).endswith(" and 29970 more")
    for other in (BlockingIOError(errno.EAGAIN, "of a socket"), OSError(errno.EIO, "I/O"), ValueError("x"), KeyError()):
        assert as_user_error(other) is None


@pytest.mark.parametrize(
    ("variables", "spins"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_threads_of_openmp_soon_sleep_unless_the_user_says_otherwise(
    variables: dict[str, str], spins: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger_lab.reports.terminal.script import accept_surroundings

    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that pytest restores it
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    accept_surroundings()
    assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_nothing_is_created_that_every_user_may_write(tmp_path: Path) -> None:
    write_run(tmp_path, "aa")
    written = run(
        "report",
        "page",
        tmp_path / "page.html",
        "--log_root",
        tmp_path,
        prefix=("sh", "-c", 'umask 0; exec "$@"', "sh"),
    )
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o664


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("ulimit -v 2000000", "error: not enough memory (libtorch"),
        ("mkdir gone; cd gone; rmdir ../gone", "error: the working folder was removed: change to another folder (cd)"),
    ],
)
def test_surroundings_in_which_nothing_can_run_are_told_in_one_line(tmp_path: Path, shell: str, said: str) -> None:
    refused = run("train", cwd=tmp_path, prefix=("bash", "-c", f'{shell}; exec "$@"', "bash"))
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert refused.stderr.startswith(said)
