"""What the image is built from, and what the files of compose and of the devcontainer say about it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ledger_lab.ledger.meters.host import git_facts

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
LOCKED = ("tools/requirements/main.in", "tools/requirements/main.lock")
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
BUILD = (DOCKER / "build.sh").read_text(encoding="utf-8")


def build(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run build.sh with builders that print their command line, one argument a line."""
    for name in ("docker", "buildah"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        (tmp_path / name).chmod(0o755)
    return subprocess.run(
        [str(DOCKER / "build.sh"), *arguments],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.defpath}", "HOME": str(Path.home()), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_build_names_version_revision_and_lock(tmp_path: Path) -> None:
    finished = build(tmp_path, "--build-arg", "BASE=mine")
    lines = finished.stdout.splitlines()
    assert lines[:2] == ["docker", "build"]
    version = re.search(r'^version = "(.+?)"', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert version is not None
    assert f"VERSION={version[1]}" in lines
    facts = git_facts(ROOT)
    assert f"REVISION={facts['commit'] or 'unknown'}" in lines
    assert f"CHANGES_SHA256={facts['changes_sha256'] or ''}" in lines  # as a run outside of the image records it
    assert any(re.fullmatch(r"LOCK_SHA256=[0-9a-f]{64}", line) for line in lines)
    assert lines[-3:] == ["--build-arg", "BASE=mine", "."]
    assert set(re.findall(r"^ARG (\w+)", DOCKERFILE, flags=re.MULTILINE)) >= {
        "VERSION",
        "REVISION",
        "CHANGES_SHA256",
        "LOCK_SHA256",
    }


def test_the_light_build_takes_the_same_file(tmp_path: Path) -> None:
    lines = build(tmp_path, "--light", BUILDER="buildah").stdout.splitlines()
    assert lines[:2] == ["buildah", "bud"]
    assert {"docker/Dockerfile", "ledger_lab:light", "KERNELS=", "SYSTEM_PACKAGES="} <= {*lines}


def required_by(*names: str, without: str = "") -> set[str]:
    """Return packages and all that their metadata require, but for one."""
    found, waiting = set(names), [(name, "") for name in names]
    while waiting:
        name, extra = waiting.pop()
        for line in distribution(name).requires or ():
            requirement = Requirement(line)
            needed = canonicalize_name(requirement.name)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            waiting += [(needed, extra) for extra in requirement.extras]
            if needed not in found and needed != without:
                found.add(needed)
                waiting.append((needed, ""))
    return found


def selected(*arguments: str) -> set[str]:
    """Return the packages that an image with these sections has."""
    finished = subprocess.run(
        [sys.executable, str(DOCKER / "select_packages.py"), *LOCKED, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--hash=sha256:" in finished.stdout
    return set(re.findall(r"^([a-z0-9-]+)==", finished.stdout, flags=re.MULTILINE))


def argument(name: str) -> list[str]:
    """Return the words of the default of a build argument."""
    default = re.search(rf'^ARG {name}="?([^"\n]*)', DOCKERFILE.replace("\\\n", ""), flags=re.MULTILINE)
    assert default is not None
    return default[1].split()


def test_the_packages_of_an_image_have_all_that_they_require() -> None:
    packages = selected(*argument("SECTIONS"), "--without", *argument("WITHOUT"))
    assert packages >= {"isaaclab", "rsl-rl-lib", "skrl", "rl-games", "torch", "plotly", "uv"}
    assert not packages & {"open3d", "dash", "pytest", "sphinx", "playwright", "mypy", "ruff"}
    here = {canonicalize_name(each.metadata["Name"]) for each in distributions()}
    assert required_by(*packages & here, without="open3d") <= packages  # some are for Windows only


def test_the_light_image_has_what_setup_requires_and_no_simulator() -> None:
    sections = re.search(r'"SECTIONS=(.+?)"', BUILD)
    assert sections is not None
    packages = selected(*sections[1].split())
    assert packages >= required_by("ledger_lab") - {"ledger_lab"}
    assert not packages & {"torch", "isaaclab", "pytest"}


def test_all_sections_are_the_whole_lock_file() -> None:
    described = json.loads(without_comments(ROOT / ".devcontainer" / "devcontainer.json"))["build"]["args"]
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / LOCKED[1]).read_text(), flags=re.MULTILINE))
    assert described["WITHOUT"] == ""
    assert selected(*described["SECTIONS"].split()) == locked


def test_a_lock_file_that_is_not_the_declared_one_is_refused(tmp_path: Path) -> None:
    finished = subprocess.run(
        [
            "bash",
            str(DOCKER / "install_packages.sh"),
            *LOCKED,
            str(tmp_path / "venv"),
            "Building",
        ],
        cwd=ROOT,
        env={"PATH": os.defpath, "LOCK_SHA256": "0" * 64},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode != 0
    assert "main.lock: FAILED" in finished.stdout
    assert not (tmp_path / "venv").exists()


def test_the_base_is_the_only_image_and_no_host_is_named() -> None:
    assert re.findall(r"^FROM (.+)$", DOCKERFILE, flags=re.MULTILINE) == ["${BASE}"]
    assert "# syntax" not in DOCKERFILE
    assert "--from" not in DOCKERFILE
    for path in DOCKER.iterdir():
        assert not re.search(r"https?://|\.io/|\.com\b|\.org/", path.read_text(encoding="utf-8")), path


def test_the_image_contains_kernels_of_every_task() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "source/ledger_lab/tasks").glob("*/panels/*.toml"))
    assert {*argument("KERNELS")} == set(re.findall(r'"(LedgerLab-[\w-]+)"', sources))


def without_comments(path: Path) -> str:
    """Return the text of a JSON file with comments, without these."""
    return re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("service", ["cpu", "gpu"])
def test_services_have_a_read_only_root_and_group_0(service: str) -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    described = compose["services"][service]
    assert described["read_only"] is True
    assert described["user"].endswith(":0")
    assert {mount.partition(":")[0]: mount.partition(":")[2] for mount in described["volumes"]} == {
        "logs": "/workspace/ledger_lab/logs",
        "home": "/home/ledger_lab",
    }
    assert set(compose["volumes"]) == {"logs", "home"}
