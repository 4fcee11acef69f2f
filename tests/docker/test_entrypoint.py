"""The entrypoint of the image as a plain process: home, kernel cache, signals and exit statuses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCKER = Path(__file__).resolve().parents[2] / "docker"
SHOW = 'printf "%s\\n" "$HOME" "$WARP_CACHE_PATH" "${XDG_CACHE_HOME-unset}" "$VIRTUAL_ENV"'
FOREIGN = 4321


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can enter, with the entrypoint and a temporary folder in it."""
    folder = Path(tempfile.mkdtemp(prefix="entrypoint-"))
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    for name in ("entrypoint.sh", "environment.sh"):
        shutil.copy(DOCKER / name, folder)
    yield folder
    shutil.rmtree(folder)


def surroundings(place: Path, **changed: str) -> dict[str, str]:
    """Return an environment with no home but what is given."""
    return {"PATH": os.defpath, "TMPDIR": str(place / "tmp"), "LEDGER_LAB_KERNELS": str(place / "kernels"), **changed}


def start(place: Path, *command: str, user: int | None = None, **changed: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(place / "entrypoint.sh"), *command],
        env=surroundings(place, **changed),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        user=user,
        group=None if user is None else 0,
        extra_groups=None if user is None else [],
    )


def seen(place: Path, user: int | None = None, **changed: str) -> tuple[list[str], str]:
    """Return home, kernel cache, ``XDG_CACHE_HOME`` and environment of a command, and what was said on the way."""
    process = start(place, "sh", "-c", SHOW, user=user, **changed)
    out, said = process.communicate()
    assert process.returncode == 0, said
    return out.splitlines(), said


def bake(place: Path, modules: int = 3, version: str = "1.0") -> Path:
    """Make kernels as an image contains them."""
    for number in range(modules):
        module = place / "kernels" / version / f"wp_{number}"
        module.mkdir(parents=True)
        (module / "module.o").write_text(f"kernel {number}")
    return place / "kernels" / version


def test_without_a_home_the_temporary_folder_has_a_private_one(place: Path) -> None:
    (home, *_), said = seen(place)
    assert home == str(place / "tmp" / f"ledger_lab-home-{os.getuid()}")
    assert Path(home).stat().st_mode & 0o777 == 0o700
    assert said == ""
    assert seen(place)[0][0] == home  # the next command finds its caches again


@pytest.mark.parametrize("home", ["/nowhere", "relative", "/dev/null"])
def test_a_home_that_is_no_folder_is_replaced_and_named(place: Path, home: str) -> None:
    (found, *_), said = seen(place, HOME=home)
    assert found.startswith(str(place / "tmp"))
    assert said == f"ledger_lab: {home} is not a writable folder; caches go to {found}\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_with_a_foreign_home_gets_one(place: Path) -> None:
    (found, cache, *_), said = seen(place, user=FOREIGN, HOME=str(place), XDG_CACHE_HOME=str(place))
    assert found == str(place / "tmp" / f"ledger_lab-home-{FOREIGN}")
    assert cache == f"{found}/.cache/warp"
    assert Path(found).stat().st_uid == FOREIGN
    assert str(place) in said


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_temporary_home_that_someone_else_prepared_is_not_used(place: Path) -> None:
    prepared = place / "tmp" / f"ledger_lab-home-{FOREIGN}"
    prepared.mkdir()
    prepared.chmod(0o777)
    (found, *_), _ = seen(place, user=FOREIGN)
    assert found != str(prepared)
    assert Path(found).stat().st_uid == FOREIGN


IN_A_POD = """
mount -t tmpfs -o mode=0777 emptydir "$1/tmp"
mount -o remount,bind,ro /
shift
exec setpriv --reuid 1000680000 --regid 0 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
"""
"""A pod of this project, in a shell: any user, group 0, no capabilities, a read-only root, an ``emptyDir`` at /tmp."""


@pytest.mark.skipif(
    os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0,
    reason="only root can mount",
)
def test_a_pod_gets_a_home_kernels_and_a_name(place: Path) -> None:
    bake(place)
    asked = 'test ! -w / && test "$(id -u):$(id -G)" = 1000680000:0 && echo "$USER" && find "$HOME" -name module.o'
    pod = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-euc",
            IN_A_POD,
            "sh",
            str(place),
            str(place / "entrypoint.sh"),
            "sh",
            "-c",
            asked,
        ],
        env=surroundings(place, HOME="/home/ledger_lab"),
        capture_output=True,
        text=True,
        check=False,
    )
    name, *kernels = pod.stdout.splitlines()
    home = place / "tmp" / "ledger_lab-home-1000680000"
    assert (pod.returncode, name) == (0, "1000680000")
    assert {*kernels} == {f"{home}/.cache/warp/1.0/wp_{number}/module.o" for number in range(3)}
    assert pod.stderr == f"ledger_lab: /home/ledger_lab is not a writable folder; caches go to {home}\n"


def test_nothing_writable_is_one_line_and_status_2(place: Path) -> None:
    process = start(place, "sh", "-c", "echo ran", HOME="/nowhere", TMPDIR="/nowhere-either")
    out, said = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert said.count("\n") == 1
    assert "--tmpfs /tmp" in said


def test_kernels_of_the_image_fill_the_cache_and_replace_nothing(place: Path) -> None:
    bake(place)
    home = place / "tmp"
    mine = home / ".cache" / "warp" / "1.0" / "wp_1"
    mine.mkdir(parents=True)
    (mine / "module.o").write_text("mine")
    seen(place, HOME=str(home))
    kernels = {path.parent.name: path.read_text() for path in mine.parent.glob("*/module.o")}
    assert kernels == {"wp_0": "kernel 0", "wp_1": "mine", "wp_2": "kernel 2"}
    assert not list(mine.parent.glob(".seed-*"))


def test_jobs_that_start_together_fill_one_cache(place: Path) -> None:
    bake(place, modules=20)
    count = "ls $WARP_CACHE_PATH/1.0/*/module.o | wc -l"
    jobs = [start(place, "sh", "-c", count, HOME=str(place / "tmp")) for _ in range(6)]
    outcomes = [(job.communicate(), job.returncode) for job in jobs]
    assert outcomes == [(("20\n", ""), 0)] * 6
    assert not list((place / "tmp").glob(".cache/warp/1.0/.seed-*"))


def test_a_kernel_cache_that_cannot_be_filled_stops_nothing(place: Path) -> None:
    bake(place)
    (_, cache, *_), said = seen(place, WARP_CACHE_PATH="/dev/null/cache")
    assert cache == "/dev/null/cache"
    assert "cannot be filled" in said


@pytest.mark.parametrize("status", [0, 75])
def test_the_exit_status_is_the_commands(place: Path, status: int) -> None:
    process = start(place, "sh", "-c", f"exit {status}")
    process.communicate()
    assert process.returncode == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_command_itself(place: Path, number: signal.Signals) -> None:
    waits = (
        "import os, signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(75))\n"
        "print(os.getpid(), flush=True)\n"
        "signal.pause()"
    )
    process = start(place, sys.executable, "-c", waits)
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid  # replaced, not started: there is no shell in between
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 75
