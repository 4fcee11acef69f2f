"""isaaclab.sh: which environment it takes, how it builds its own, and that programs keep their status and signals.

A stand-in for Python 3.12 records what it is asked to install, so nothing is downloaded; it is as chatty and as hungry
for input as an installer may be. Whatever else it is asked to run, the interpreter of this test runs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = "awk bash cat chmod cp dirname env flock grep head mkdir mv readlink rm sha256sum sleep stat tee"

STAND_IN = f"""#!/usr/bin/env bash
log() {{ printf '%s\\n' "$*" | tee -a "$TEST_LOG"; cat >/dev/null; }}
case "$*" in
    "-I -c "*) printf '%s\\n' "$0" ;;
    "-m venv --clear "*) log venv; rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
    "-m pip "*) log "pip $*"; env >"$HOME/env of pip" ;;
    "-m uv cache dir") printf '%s\\n' "$HOME/cache" ;;
    "-m uv "*" --dry-run"*) log dry-run; [[ ! -e $HOME/offline ]] ;;
    "-m uv "*" sync "*) log "sync $*"; env >"$HOME/env of uv"; sleep "${{TEST_SYNC_S:-0}}" ;;
    "-m uv "*" install "*) log "install $*" ;;
    *tools/import_modules.py) log "compile bytecode=${{PYTHONDONTWRITEBYTECODE-kept}}"; [[ ! -e $HOME/broken ]] ;;
    *) exec '{sys.executable}' "$@" ;;
esac
"""


@dataclass
class Workshop:
    """A copy of isaaclab.sh in a folder of its own, and a machine that has the named tools and nothing else."""

    root: Path
    home: Path
    tools: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.home / "log"

    def start(self, *arguments: str, cwd: Path | None = None, script: Path | None = None) -> subprocess.Popen[str]:
        environment = {"PATH": str(self.tools), "HOME": str(self.home), "TEST_LOG": str(self.log), **self.env}
        return subprocess.Popen(
            [str(script or self.root / "isaaclab.sh"), *arguments],
            cwd=cwd or self.home,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, stdin: str = "", **options: Path) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **options)
        stdout, stderr = process.communicate(stdin, timeout=30)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def steps(self) -> list[str]:
        """The first word of everything that was asked for since the last call."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return [line.split()[0] for line in text.splitlines()]


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def machine(folder: Path) -> Workshop:
    """Return a machine without any Python 3.12."""
    workshop = Workshop(root=folder / "my lab", home=folder / "home", tools=folder / "tools")
    for each in (workshop.root, workshop.home, workshop.tools):
        each.mkdir()
    for tool in TOOLS.split():
        found = shutil.which(tool)
        if found is None:
            pytest.skip(f"this machine has no {tool}")
        (workshop.tools / tool).symlink_to(found)
    (workshop.root / "tools" / "requirements").mkdir(parents=True)
    for name in ("isaaclab.sh", "tools/requirements/main.lock", "pyproject.toml", "tools/install_settings.py"):
        shutil.copy(ROOT / name, workshop.root / name)
    return workshop


@pytest.fixture
def bare(tmp_path: Path) -> Workshop:
    """A machine without any Python 3.12."""
    return machine(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A machine on which .venv is complete, for tests that leave it as it is."""
    workshop = machine(tmp_path_factory.mktemp("ready"))
    write_program(workshop.tools / "python3.12", STAND_IN)
    assert workshop.run("-p", "-c", "pass").returncode == 0
    workshop.steps()
    return workshop


@pytest.fixture
def workshop(bare: Workshop) -> Workshop:
    """A machine whose PATH has a Python 3.12."""
    write_program(bare.tools / "python3.12", STAND_IN)
    return bare


@pytest.fixture
def built(workshop: Workshop) -> Workshop:
    """A machine on which .venv is complete, for a test that changes it."""
    assert workshop.run("-p", "-c", "pass").returncode == 0
    workshop.steps()
    return workshop


@pytest.fixture
def make_environment(tmp_path: Path) -> Callable[..., str]:
    """Creates a real virtual environment that claims to hold the given distributions."""

    def make(name: str, **versions: str) -> str:
        prefix = tmp_path / name
        venv.create(prefix, symlinks=True)
        (site_packages,) = prefix.glob("lib/python3.*/site-packages")
        for package, version in versions.items():
            metadata = site_packages / f"{package}-{version}.dist-info" / "METADATA"
            metadata.parent.mkdir()
            metadata.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        return str(prefix)

    return make


PREFIX = ("-p", "-c", "import sys; print(sys.prefix)")


# --- Which environment --------------------------------------------------------------------------------------------


def test_a_checkout_gets_the_whole_command_line_and_wins_over_an_active_environment(
    workshop: Workshop, make_environment: Callable[..., str]
) -> None:
    stock = write_program(workshop.home / "IsaacLab" / "isaaclab.sh", 'printf "stock %s\\n" "$*"; exit 5\n')
    workshop.env["ISAACLAB_PATH"] = str(stock.parent)
    workshop.env["VIRTUAL_ENV"] = make_environment("active", isaaclab="3.0.0", ledger_lab="0.1.0")
    result = workshop.run("-p", "train.py", "--task", "x y")
    assert (result.returncode, result.stdout) == (5, "stock -p train.py --task x y\n")
    assert workshop.steps() == []


@pytest.mark.parametrize("path", ["/nowhere", "."])
def test_a_wrong_checkout_is_one_line(workshop: Workshop, path: str) -> None:
    workshop.env["ISAACLAB_PATH"] = path
    result = workshop.run("-p", "-c", "pass", cwd=workshop.root)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert f"ISAACLAB_PATH={path}" in result.stderr


@pytest.mark.parametrize(("variable", "version"), [("VIRTUAL_ENV", "3.0.2"), ("CONDA_PREFIX", "28.0.0")])
def test_an_active_environment_with_isaac_lab_is_taken(
    workshop: Workshop, make_environment: Callable[..., str], variable: str, version: str
) -> None:
    workshop.env[variable] = make_environment("active", isaaclab=version, ledger_lab="0.1.0")
    assert workshop.run(*PREFIX).stdout.strip() == workshop.env[variable]
    assert workshop.steps() == []


@pytest.mark.parametrize("distributions", [{"isaaclab": "2.3.0"}, {"isaaclab_rl": "3.0.0", "ledger_lab": "0.1.0"}])
def test_an_active_environment_without_isaac_lab_3_0_is_passed_over(
    workshop: Workshop, make_environment: Callable[..., str], distributions: dict[str, str]
) -> None:
    workshop.env["VIRTUAL_ENV"] = make_environment("active", **distributions)
    result = workshop.run("-p", "-c", "import os; print(os.environ['VIRTUAL_ENV'])")
    assert result.stdout.strip() == str(workshop.root / ".venv")
    assert workshop.steps() == ["venv", "pip", "sync", "install", "compile"]
    assert re.search(r"installed in \d+:\d\d, once; the clock of the run starts now\n$", result.stderr)


def test_an_active_environment_without_ledger_lab_is_told_how_to_get_it(
    workshop: Workshop, make_environment: Callable[..., str]
) -> None:
    workshop.env["VIRTUAL_ENV"] = make_environment("active", isaaclab="3.0.0")
    result = workshop.run(*PREFIX)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert f"pip install -e '{workshop.root}'" in result.stderr


# --- Which Python builds it ---------------------------------------------------------------------------------------


def test_without_python_3_12_one_line_says_what_to_do(bare: Workshop) -> None:
    write_program(bare.tools / "python3", "#!/usr/bin/env bash\nexit 1\n")  # some other version
    result = bare.run("-p", "-c", "pass")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "Python 3.12" in result.stderr
    assert not (bare.root / ".venv").exists()


UV = """#!/usr/bin/env bash
echo "uv $*" >>"$TEST_LOG"
case "$*" in
    "python install 3.12")
        [[ -e $HOME/offline ]] || exit 0
        printf 'error: no download\\n  Caused by: no route\\n' >&2
        exit 2
        ;;
    "python find 3.12") [[ $UV_PYTHON_PREFERENCE == only-managed ]] && printf '%s\\n' "$HOME/fetched/python3.12" ;;
    *) exit 1 ;;
esac
"""
"""A uv that has no Python yet, and installs one unless the machine is offline."""


def test_uv_fetches_python_3_12_where_there_is_none(bare: Workshop) -> None:
    write_program(bare.tools / "uv", UV)
    python = write_program(bare.home / "fetched" / "python3.12", STAND_IN)
    result = bare.run("-p", "-c", "print('out')")
    assert (result.returncode, result.stdout) == (0, "out\n")
    assert f"with {python} " in result.stderr
    assert "uv python install 3.12" in bare.log.read_text()


def test_another_python_3_runs_the_locked_uv_that_fetches_python_3_12(bare: Workshop) -> None:
    """Its pip installs the uv of the lock, with hashes, into an environment that is removed afterwards."""
    python = write_program(bare.home / "fetched" / "python3.12", STAND_IN)
    uv = write_program(bare.home / "uv", UV)
    other = STAND_IN.replace("""'%s\\n' "$0" ;;""", """'' ; exit 1 ;;""").replace(
        '"-m uv cache', f'"-m uv python "*) exec "{uv}" "${{@:3}}" ;;\n    "-m uv cache'
    )
    write_program(bare.tools / "python3", other)
    result = bare.run("-p", "-c", "print('out')")
    assert (result.returncode, result.stdout) == (0, "out\n")
    assert f"with {python} " in result.stderr
    assert not list(bare.root.glob(".venv.uv*"))
    first, bootstrap, *_ = bare.log.read_text().splitlines()
    assert first == "venv"
    assert "--require-hashes" in bootstrap
    assert bare.steps() == ["venv", "pip", "uv", "uv", "venv", "pip", "sync", "install", "compile"]


def test_a_python_3_12_that_cannot_be_fetched_is_one_line_with_the_way_out(bare: Workshop) -> None:
    write_program(bare.tools / "uv", UV)
    (bare.home / "offline").touch()
    result = bare.run("-p", "-c", "pass")
    assert (result.returncode, result.stdout) == (2, "")
    refusal = result.stderr.splitlines()[-1]
    assert "Python 3.12 (Caused by: no route): " in refusal
    assert "or set ISAACLAB_PATH" in refusal
    assert not (bare.root / ".venv").exists()


# --- Building .venv -----------------------------------------------------------------------------------------------


def test_the_first_call_installs_the_lock_with_hashes(workshop: Workshop) -> None:
    result = workshop.run("-p", "-c", "print(input())", stdin="typed")
    assert (result.returncode, result.stdout) == (0, "typed\n"), "stdin and stdout are the program's"
    _, bootstrap, sync, package, compiled = workshop.log.read_text().splitlines()
    assert compiled.startswith("compile ")
    assert "--require-hashes" in bootstrap
    assert "--require-hashes" in sync
    assert sync.endswith("main.lock")
    assert "--no-deps" in package
    assert package.endswith("--editable .")

    requirement, *hashes = (workshop.root / ".venv" / "uv.lock").read_text().splitlines()
    assert requirement.startswith("uv==")
    assert hashes
    assert all(line.strip().startswith("--hash=sha256:") for line in hashes)


def test_an_environment_that_is_linked_from_elsewhere_is_not_emptied(workshop: Workshop, tmp_path: Path) -> None:
    other = tmp_path / "other" / "bin"
    other.mkdir(parents=True)
    (other / "python").write_text("precious")
    (workshop.root / ".venv").symlink_to(other.parent)
    result = workshop.run("-p", "-c", "pass")
    assert result.returncode == 2
    assert ".venv is a link, so its environment was built for another folder: remove the link" in result.stderr
    assert (other / "python").read_text() == "precious"
    assert workshop.steps() == []


def settings_of(workshop: Workshop, tool: str) -> dict[str, str]:
    """The variables of pip and uv with which the installation ran a tool."""
    lines = (workshop.home / f"env of {tool}").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith(("PIP_", "UV_")))


ISOLATED = {"PIP_CONFIG_FILE": "/dev/null", "UV_NO_CONFIG": "1"}


def test_settings_that_install_elsewhere_or_something_else_do_not_apply(workshop: Workshop) -> None:
    workshop.env |= {"PIP_USER": "1", "PIP_TARGET": "/elsewhere", "PIP_PREFIX": "/elsewhere", "PIP_DRY_RUN": "1"}
    workshop.env |= {
        "UV_CONSTRAINT": "/none.txt",
        "UV_OVERRIDE": "/none.txt",
        "UV_TARGET": "/x",
        "UV_SYSTEM_PYTHON": "1",
    }
    for name, text in {
        "pip/pip.conf": "[global]\ntarget = /elsewhere\n[install]\nprefix = /elsewhere\ndry-run = true\n",
        "uv/uv.toml": 'constraint-dependencies = ["torch==1"]\n[pip]\ntarget = "/elsewhere"\n',
    }.items():
        write_program(workshop.home / ".config" / name, text)
    assert workshop.run("-p", "-c", "pass").returncode == 0
    kept = {name for tool in ("pip", "uv") for name in settings_of(workshop, tool)}
    assert not kept & set(workshop.env) and not any(re.search("TARGET|PREFIX|CONSTRAINT|DRY", name) for name in kept)


def test_settings_of_indexes_and_certificates_apply(workshop: Workshop) -> None:
    workshop.env |= {"PIP_CERT": "/own.pem", "UV_FIND_LINKS": "/wheels", "UV_LINK_MODE": "copy"}
    for name, text in {
        "pip/pip.conf": "[global]\nindex-url = https://mirror/simple\n[install]\nextra-index-url =\n    https://a\n    https://b\n",
        "uv/uv.toml": "native-tls = true\n"
        '[[index]]\nname = "m"\nurl = "https://m"\n[[index]]\nurl = "https://d"\ndefault = true\n',
    }.items():
        write_program(workshop.home / ".config" / name, text)
    assert workshop.run("-p", "-c", "pass").returncode == 0
    expected = ISOLATED | {
        **{
            "PIP_CERT": "/own.pem",
            "PIP_INDEX_URL": "https://mirror/simple",
            "PIP_EXTRA_INDEX_URL": "https://a https://b",
        },
        **{"UV_FIND_LINKS": "/wheels", "UV_LINK_MODE": "copy", "UV_NATIVE_TLS": "true"},
        **{"UV_INDEX": "m=https://m", "UV_DEFAULT_INDEX": "https://d"},
    }
    for tool in ("pip", "uv"):
        assert expected.items() <= settings_of(workshop, tool).items()


def test_a_link_in_the_place_of_the_lock_is_not_followed(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "decoy").write_text("precious")
    (workshop.root / ".venv.lock").symlink_to(tmp_path / "decoy")
    result = workshop.run("-p", "-c", "pass")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert ".venv.lock is a link, and must be a file: remove it" in result.stderr
    assert (tmp_path / "decoy").read_text() == "precious"


def test_a_complete_environment_is_left_alone(ready: Workshop) -> None:
    result = ready.run("-p", "-c", "print('out')")
    assert (result.stdout, result.stderr) == ("out\n", "")
    assert ready.steps() == []


def test_a_changed_lock_is_installed_into_the_environment_that_is_there(built: Workshop) -> None:
    with (built.root / "tools" / "requirements" / "main.lock").open("a") as lock:
        lock.write("# changed\n")
    assert built.run("-p", "-c", "pass").returncode == 0
    assert built.steps() == ["dry-run", "sync", "install", "compile"]
    built.run("-p", "-c", "pass")
    assert built.steps() == []


def test_changed_metadata_reinstalls_ledger_lab_alone_and_settings_of_tools_do_not(built: Workshop) -> None:
    file = built.root / "pyproject.toml"
    text = file.read_text()
    file.write_text(text + "# changed\n")
    assert built.run("-p", "-c", "pass").returncode == 0
    assert built.steps() == []
    file.write_text(text.replace("[project]\n", "[project]\n# changed\n"))
    assert built.run("-p", "-c", "pass").returncode == 0
    assert built.steps() == ["install", "compile"]


def test_an_update_that_cannot_start_keeps_the_old_environment(built: Workshop) -> None:
    lock = built.root / "tools" / "requirements" / "main.lock"
    old = lock.read_text()
    lock.write_text(old + "# changed\n")
    (built.home / "offline").touch()
    assert built.run("-p", "-c", "pass").returncode != 0
    assert built.steps() == ["dry-run"]
    lock.write_text(old)
    assert built.run("-p", "-c", "print('out')").stdout == "out\n"
    assert built.steps() == []


def test_a_build_killed_in_the_middle_starts_from_nothing_again(workshop: Workshop) -> None:
    workshop.env["TEST_SYNC_S"] = "60"
    process = workshop.start("-p", "-c", "pass")
    deadline = time.monotonic() + 20
    while not (workshop.log.exists() and "sync" in workshop.log.read_text()):
        assert time.monotonic() < deadline, "the build never reached the packages"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    workshop.steps()

    workshop.env["TEST_SYNC_S"] = "0"
    assert workshop.run("-p", "-c", "print('out')").stdout == "out\n"
    assert workshop.steps() == ["venv", "pip", "sync", "install", "compile"]


def test_simultaneous_calls_build_once(workshop: Workshop) -> None:
    workshop.env["TEST_SYNC_S"] = "1"
    processes = [workshop.start("-p", "-c", f"print({number})") for number in range(2)]
    outputs = [process.communicate(timeout=30) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert [stdout for stdout, _ in outputs] == ["0\n", "1\n"]
    assert sum("waiting" in stderr for _, stderr in outputs) == 1
    assert workshop.steps() == ["venv", "pip", "sync", "install", "compile"]


def test_the_build_lock_is_not_held_by_the_program(workshop: Workshop) -> None:
    """A training that runs for hours must not keep the next call from updating the environment."""
    program = workshop.start("-p", "-c", "import time; print('up', flush=True); time.sleep(60)")
    assert program.stdout is not None
    assert program.stdout.readline() == "up\n"
    subprocess.run(["flock", "--nonblock", workshop.root / ".venv.lock", "true"], check=True)
    program.kill()
    program.communicate()


# --- Running ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_program(ready: Workshop, number: signal.Signals) -> None:
    program = f"""
import os, signal, time
signal.signal({int(number)}, lambda *_: os._exit(42))
print(os.getpid(), flush=True)
for _ in range(1200):
    time.sleep(0.05)  # a signal just before one long sleep would wait for its end
"""
    process = ready.start("-p", "-c", program)
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid, "a shell stands between the caller and the program"
    process.send_signal(number)
    assert process.wait(timeout=60) == 42
    process.communicate()


def test_it_runs_from_anywhere_through_a_symlink_with_arguments_intact(ready: Workshop, tmp_path: Path) -> None:
    link = tmp_path / "a link"
    link.symlink_to(ready.root / "isaaclab.sh")
    code = "import os, sys; print(os.getcwd(), sys.argv[1:])"
    result = ready.run("-p", "-c", code, "a b", "", "*", cwd=tmp_path, script=link)
    assert result.stdout == f"{tmp_path} {['a b', '', '*']}\n"
    assert ready.steps() == []


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_builds_nothing_and_ends_with_isaac_labs_where_it_can(
    workshop: Workshop, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = workshop.run(*arguments)
    assert result.returncode == 0
    assert "usage: ./isaaclab.sh -p" in result.stdout
    assert workshop.steps() == []

    workshop.run("-p", "-c", "pass")
    (tmp_path / "isaaclab.py").write_text("print('help of Isaac Lab')")
    workshop.env["PYTHONPATH"] = str(tmp_path)
    assert workshop.run(*arguments).stdout.endswith("help of Isaac Lab\n")
