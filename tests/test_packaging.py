"""Every way to install LedgerLab registers its tasks and brings its data; the lock pins everything."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "tools" / "requirements"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SHIPPED = sorted(
    path.parent.name for path in (ROOT / "source" / "ledger_lab" / "tasks" / "pretrained").glob("*/contract.json")
)


def build(tree: Path, kind: str, out: Path) -> Path:
    """Run one hook of the build backend, as pip would, with the setuptools of this environment."""
    code = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
    out.mkdir(exist_ok=True)
    result = subprocess.run(
        [sys.executable, "-c", code, f"build_{kind}", str(out)], cwd=tree, check=True, capture_output=True, text=True
    )
    return out / result.stdout.split()[-1]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what installing needs, so that nothing is written into the checkout."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "source", tree / "source", ignore=ignore)
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, from a tree that also holds byte code, as a used one does."""
    (tree / "source" / "ledger_lab" / "__pycache__").mkdir(exist_ok=True)
    (tree / "source" / "ledger_lab" / "__pycache__" / "paths.cpython-312.pyc").touch()
    return build(tree, "wheel", tmp_path_factory.mktemp("wheel"))


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"ledger_lab-{VERSION}.dist-info/METADATA").decode())


def test_the_wheel_holds_all_code_and_data_and_nothing_else(tree: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = tree / "source"
    code = {
        path.relative_to(source).as_posix()
        for path in (source / "ledger_lab").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"ledger_lab/py.typed", "ledger_lab/files.py", "ledger_lab/config/prices.toml"} <= code
    assert "ledger_lab/cli/scripts/train.py" in code
    assert shipped == code


def test_the_version_is_the_same_everywhere(wheel: Path) -> None:
    extension = tomllib.loads((ROOT / "config" / "extension.toml").read_text())["package"]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation is not None
    assert metadata(wheel)["Version"] == extension["version"] == citation[1] == VERSION
    assert wheel.name == f"ledger_lab-{VERSION}-py3-none-any.whl"


def test_a_checkout_is_a_short_list() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {line.partition("/")[0] for line in tracked.splitlines()}
    assert len([name for name in names if not name.startswith(".")]) <= 16


def test_the_light_parts_install_without_torch_and_simulator(wheel: Path) -> None:
    requirements = [Requirement(text) for text in metadata(wheel).get_all("Requires-Dist", [])]
    always = {requirement.name for requirement in requirements if requirement.marker is None}
    optional = {requirement.name for requirement in requirements if requirement.marker is not None}
    assert "scipy" in always
    assert "isaaclab" in optional
    assert always.isdisjoint({"torch", "isaaclab", "rl-games", "rsl-rl-lib", "skrl", "gym", "moviepy"})


@pytest.mark.thorough  # setup.py and pyproject.toml change seldom
def test_the_source_distribution_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    sdist = build(tree, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build(tmp_path / f"ledger_lab-{VERSION}", "wheel", tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert sorted(first.namelist()) == sorted(second.namelist())


def test_an_installation_finds_its_data_and_registers_its_tasks(wheel: Path, tmp_path: Path) -> None:
    """The environment of the tests is an editable installation."""
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    installer = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*installer, str(wheel)], check=True)
    code = """
import json
from importlib.metadata import entry_points
import ledger_lab
from ledger_lab.files import config_root, panel_files
print(json.dumps({
    "version": ledger_lab.__version__,
    "package": ledger_lab.__path__[0],
    "config": str(config_root()),
    "panels": len(panel_files()),
    "tasks": {entry.name: entry.value for entry in entry_points(group="isaaclab.tasks")},
}))
"""
    result = subprocess.run([str(python), "-c", code], cwd=tmp_path, env={}, check=True, capture_output=True, text=True)
    found = json.loads(result.stdout)
    package = Path(found["package"])
    assert found["version"] == VERSION
    assert found["tasks"] == {"ledger_lab": "ledger_lab.tasks.registered"}
    assert found["panels"] >= 1
    shipped = (package / "tasks" / "pretrained").glob("*/contract.json")
    assert sorted(path.parent.name for path in shipped) == SHIPPED
    assert Path(found["config"]) == package / "config"
    assert package.is_relative_to(tmp_path / "env")
    listed = subprocess.run([tmp_path / "env" / "bin" / "ledgerlab"], capture_output=True, text=True, check=True)
    assert "ledgerlab COMMAND" in listed.stdout


@pytest.mark.parametrize("name", ["main", "loggers", "engines", "trainers"])
def test_the_lock_pins_every_direct_dependency_with_hashes_and_names_no_host(name: str) -> None:
    lock = (LOCKS / f"{name}.lock").read_text()
    assert "://" not in lock
    entries = re.split(r"\n(?=[A-Za-z0-9])", "\n" + lock.split("\n", 2)[2])[1:]
    locked = {}
    for entry in entries:
        requirement = Requirement(entry.split("\\")[0])
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), entry
        assert "--hash=sha256:" in entry, entry
        locked[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    wanted = [line.split("#")[0].strip() for line in (LOCKS / f"{name}.in").read_text().splitlines()]
    for requirement in map(Requirement, filter(None, wanted)):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


def third_party_imports(*rooms: str) -> set[str]:
    """The packages that the files of these rooms import, as the names to install, wherever an import stands."""
    distributions = {"pynvml": "nvidia-ml-py", "yaml": "pyyaml"}
    modules = set()
    for room in rooms:
        place = ROOT / "source" / "ledger_lab" / room
        apart = {"meters", "loggers", "serving", "terminal"}
        for file in [place] if place.suffix else place.rglob("*.py"):
            if apart & set(file.parts):  # with libraries of their own
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    modules.add(node.module.split(".")[0])
    modules -= sys.stdlib_module_names | {"ledger_lab"}
    return {canonicalize_name(distributions.get(module, module)) for module in modules}


def test_reading_and_reporting_import_only_what_every_installation_has(wheel: Path) -> None:
    requirements = [Requirement(text) for text in metadata(wheel).get_all("Requires-Dist", [])]
    always = {canonicalize_name(requirement.name) for requirement in requirements if requirement.marker is None}
    drawing = {canonicalize_name(each.name) for each in requirements if 'extra == "figures"' in str(each.marker)}
    assert third_party_imports("ledger", "reports", "documents.py", "files.py") - drawing <= always
    assert drawing & always == set()


def test_the_environment_of_the_loggers_can_read_journals() -> None:
    wanted = [line.split("#")[0].strip() for line in (LOCKS / "loggers.in").read_text().splitlines()]
    there = {canonicalize_name(Requirement(line).name) for line in wanted if line}
    needed = third_party_imports("ledger", "documents.py", "files.py")
    assert {"msgspec", "orjson"} <= needed
    assert needed <= there
