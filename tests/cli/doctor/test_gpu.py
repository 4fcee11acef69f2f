"""The doctor tells a machine without a GPU from one whose driver is missing or too old."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.cli.doctor import gpu
from ledger_lab.cli.doctor.child import Answer

NOTHING = Answer(1, "Traceback …\nOSError: libcuda.so.1: cannot open shared object file\n")
SILENT = Answer(None, "")
DRIVER = Answer(0, '\n{"version": [13, 0]}\n')


def torch(**changes: Any) -> Answer:
    found = {"version": "2.11.0", "cuda": "13.0", "available": True, "devices": ["NVIDIA H100"]}
    return Answer(0, json.dumps({**found, **changes}))


def test_hardware_is_found_on_the_bus_or_by_its_driver(tmp_path: Path) -> None:
    assert not gpu.has_gpu(tmp_path)
    for name, vendor, kind in (("0000:00:01.0", "0x8086", "0x030000"), ("0000:00:02.0", "0x10de", "0x040300")):
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    assert not gpu.has_gpu(tmp_path), "neither another vendor's GPU nor a sound device of NVIDIA"
    (folder / "class").write_text("0x030200\n")
    assert gpu.has_gpu(tmp_path)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "dxg").touch()
    (folder / "vendor").unlink()
    assert gpu.has_gpu(tmp_path)


def test_a_missing_driver_matters_only_where_there_is_a_gpu() -> None:
    assert gpu.check_driver(True, DRIVER).text == "supports CUDA 13.0"
    assert gpu.check_driver(False, NOTHING).level == "ok"
    missing = gpu.check_driver(True, NOTHING)
    assert (missing.level, "libcuda.so.1: cannot open" in missing.text) == ("warn", True)
    nvml = Answer(0, '{"driver": "580.95", "names": ["NVIDIA H100"]}')
    assert gpu.check_nvml(True, nvml).text == "driver 580.95, NVIDIA H100"
    assert gpu.check_nvml(False, NOTHING).level == "ok"
    assert gpu.check_nvml(True, SILENT).text.endswith("no answer")


@pytest.mark.parametrize(
    ("answer", "driver", "environ", "level", "text"),
    [
        (torch(), DRIVER, {}, "ok", "torch 2.11.0, NVIDIA H100"),
        (NOTHING, DRIVER, {}, "fail", "torch can't be used"),
        (torch(available=False), DRIVER, {"CUDA_VISIBLE_DEVICES": ""}, "ok", "hides all GPUs"),
        (
            torch(available=False),
            DRIVER,
            {"CUDA_VISIBLE_DEVICES": "7"},
            "warn",
            "sees no GPU with CUDA_VISIBLE_DEVICES=7",
        ),
        (torch(available=False, cuda=None), DRIVER, {}, "warn", "built without CUDA"),
        (torch(available=False), NOTHING, {}, "warn", "there is no usable driver"),
        (torch(available=False), Answer(0, '{"version": [12, 4]}'), {}, "warn", "the driver supports CUDA 12.4 only"),
    ],
)
def test_the_reason_why_torch_has_no_gpu_is_told(
    answer: Answer, driver: Answer, environ: dict[str, str], level: str, text: str
) -> None:
    found = gpu.check_cuda(True, driver, answer, environ)
    assert (found.level, text in found.text) == (level, True), found.text


def test_without_a_gpu_torch_is_fine() -> None:
    found = gpu.check_cuda(False, NOTHING, torch(available=False, devices=[]))
    assert (found.level, found.text) == ("ok", "torch 2.11.0; no NVIDIA GPU: trainings run on the CPU")


def test_a_slow_import_of_torch_is_no_broken_torch() -> None:
    found = gpu.check_cuda(True, NOTHING, SILENT)
    assert (found.level, found.way_out) == ("warn", "run this again, or with --limit_s 300")
    assert found.text == "torch was not imported in time; so no simulation was stepped on a GPU"
    assert gpu.check_cuda(False, NOTHING, SILENT).text == "torch was not imported in time"


def test_rendering_and_stepping_are_told_as_they_went() -> None:
    assert gpu.check_egl(Answer(0, '{"version": "1.5", "vendor": "Mesa"}')).level == "ok"
    assert gpu.check_egl(NOTHING).level == "warn"
    assert gpu.check_step("cpu", Answer(0, "{}"), 60).level == "ok"
    slow = gpu.check_step("cuda:0", SILENT, 60)
    assert (slow.level, "--limit_s 300" in (slow.way_out or "")) == ("warn", True)
    broken = gpu.check_step("cuda:0", Answer(1, "a\nRuntimeError: no kernel image\n"), 60)
    assert (broken.level, "RuntimeError: no kernel image" in broken.text) == ("fail", True)


def test_an_answer_that_is_no_json_counts_as_none() -> None:
    assert gpu.json_of(Answer(0, "Segmentation fault")) is None
    assert gpu.json_of(Answer(-11, "{}")) is None
