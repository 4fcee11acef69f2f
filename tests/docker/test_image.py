"""What the image is built from, and what the files of compose and of the devcontainer say about it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
BUILD = (DOCKER / "build.sh").read_text(encoding="utf-8")


def build(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run build.sh with builders that print their command line, one argument a line."""
    for name in ("docker", "buildah"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        (tmp_path / name).chmod(0o755)
    return subprocess.run(
        [str(DOCKER / "build.sh"), *arguments],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.defpath}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_build_names_version_revision_and_lock(tmp_path: Path) -> None:
    finished = build(tmp_path, "--build-arg", "BASE=mine")
    lines = finished.stdout.splitlines()
    assert lines[:2] == ["docker", "build"]
    version = re.search(r'^version = "(.+?)"', (ROOT / "extension.toml").read_text(), flags=re.MULTILINE)
    assert version is not None
    assert f"VERSION={version[1]}" in lines
    assert any(re.fullmatch(r"REVISION=([0-9a-f]{40}(-dirty)?|unknown)", line) for line in lines)
    assert any(re.fullmatch(r"LOCK_SHA256=[0-9a-f]{64}", line) for line in lines)
    assert lines[-3:] == ["--build-arg", "BASE=mine", "."]
    assert set(re.findall(r"^ARG (\w+)", DOCKERFILE, flags=re.MULTILINE)) >= {"VERSION", "REVISION", "LOCK_SHA256"}


def test_the_light_build_takes_the_same_file(tmp_path: Path) -> None:
    lines = build(tmp_path, "--light", BUILDER="buildah").stdout.splitlines()
    assert lines[:2] == ["buildah", "bud"]
    assert {"docker/Dockerfile", "ledger_lab:light", "KERNELS=", "SYSTEM_PACKAGES="} <= {*lines}


def test_an_unknown_builder_is_one_line_and_status_2(tmp_path: Path) -> None:
    finished = build(tmp_path, BUILDER="make")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == "docker/build.sh: BUILDER=make is none of docker, podman and buildah\n"


def test_the_light_image_has_what_setup_requires_and_no_more() -> None:
    needed, waiting = set(), ["ledger_lab"]
    while waiting:
        for line in distribution(waiting.pop()).requires or ():
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if name not in needed and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                needed.add(name)
                waiting.append(name)
    listed = re.search(r'^LIGHT_PACKAGES="(.+?)"', BUILD, flags=re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert set(listed[1].split()) == needed


def test_a_lock_file_that_is_not_the_declared_one_is_refused(tmp_path: Path) -> None:
    finished = subprocess.run(
        ["bash", str(DOCKER / "install_packages.sh"), str(ROOT / "requirements.lock"), str(tmp_path / "venv")],
        env={"PATH": os.defpath, "LOCK_SHA256": "0" * 64},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode != 0
    assert "requirements.lock: FAILED" in finished.stdout
    assert not (tmp_path / "venv").exists()


def test_the_base_is_the_only_image_and_no_host_is_named() -> None:
    assert re.findall(r"^FROM (.+)$", DOCKERFILE, flags=re.MULTILINE) == ["${BASE}"]
    assert "# syntax" not in DOCKERFILE
    assert "--from" not in DOCKERFILE
    for path in DOCKER.iterdir():
        assert not re.search(r"https?://|\.io/|\.com\b|\.org/", path.read_text(encoding="utf-8")), path


def test_the_image_contains_kernels_of_every_task() -> None:
    tasks = re.search(r'^ARG KERNELS="(.+?)"', DOCKERFILE, flags=re.MULTILINE | re.DOTALL)
    assert tasks is not None
    sources = "\n".join(path.read_text() for path in (ROOT / "config" / "panels").glob("*.toml"))
    assert set(tasks[1].replace("\\\n", "").split()) == set(re.findall(r'"(LedgerLab-[\w-]+)"', sources))


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


def test_the_devcontainer_edits_what_the_image_runs() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    described = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert (ROOT / ".devcontainer" / described["build"]["dockerfile"]).resolve() == DOCKER / "Dockerfile"
    assert f"WORKDIR {described['workspaceFolder']}" in DOCKERFILE
    assert f"useradd --uid 1000 --gid 0 --no-create-home --home-dir /home/{described['remoteUser']} " in DOCKERFILE
