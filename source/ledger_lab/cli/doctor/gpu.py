"""Checks of NVIDIA GPUs and of rendering without a screen, from the answers of :mod:`ledger_lab.cli.doctor.probes`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger_lab.cli.doctor.child import Answer
from ledger_lab.cli.doctor.finding import Finding, fail, ok, warn

_NVIDIA, _DISPLAYS = "0x10de", "0x03"
_DRIVER = "install NVIDIA's driver; start a container with --gpus all, and a batch job with a GPU (--gpus-per-node)"
_NO_GPU = "no NVIDIA GPU: trainings run on the CPU"


def has_gpu(root: Path = Path("/")) -> bool:
    """Tell whether there is NVIDIA hardware, or a driver for it.

    Args:
        root: Folder that contains ``sys`` and ``dev``.
    """
    if any((root / "dev" / name).exists() for name in ("nvidiactl", "dxg")):
        return True
    for device in (root / "sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = ((device / name).read_text("ascii").strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAYS):
            return True
    return False


def json_of(answer: Answer) -> dict[str, Any] | None:
    """Return what a probe found; ``None`` if it failed or did not answer.

    Args:
        answer: Its answer.
    """
    if answer.status != 0:
        return None
    try:
        found: dict[str, Any] = json.loads(answer.last_line)
    except ValueError:
        return None
    return found


def _reason(answer: Answer) -> str:
    """Return why a probe found nothing, in one line."""
    return "no answer" if answer.status is None else answer.last_line


def check_driver(hardware: bool, cuda: Answer) -> Finding:
    """Check that the driver can be used.

    Args:
        hardware: Whether there is NVIDIA hardware.
        cuda: Answer of the probe ``cuda``.
    """
    found = json_of(cuda)
    if found is not None:
        return ok(f"supports CUDA {_dotted(found['version'])}")
    if not hardware:
        return ok(_NO_GPU)
    return warn(f"there is an NVIDIA GPU, but its driver can't be used: {_reason(cuda)}", _DRIVER)


def check_nvml(hardware: bool, nvml: Answer) -> Finding:
    """Check that power, energy and memory of GPUs can be measured.

    Args:
        hardware: Whether there is NVIDIA hardware.
        nvml: Answer of the probe ``nvml``.
    """
    found = json_of(nvml)
    if found is not None:
        return ok(f"driver {found['driver']}, {', '.join(found['names']) or 'no GPU'}")
    if not hardware:
        return ok(_NO_GPU)
    return warn(f"power, energy and memory of GPUs are not measured: {_reason(nvml)}", _DRIVER)


def check_cuda(hardware: bool, cuda: Answer, torch: Answer, environ: Mapping[str, str] = os.environ) -> Finding:
    """Check that torch can be imported, and can use the GPUs. Without its answer, no GPU is stepped.

    Args:
        hardware: Whether there is NVIDIA hardware.
        cuda: Answer of the probe ``cuda``.
        torch: Answer of the probe ``torch``.
        environ: Environment variables.
    """
    found, driver = json_of(torch), json_of(cuda)
    if torch.status is None:
        unseen = "; so no simulation was stepped on a GPU" if hardware else ""
        return warn(f"torch was not imported in time{unseen}", "run this again, or with --limit_s 300")
    if found is None:
        reinstall = "remove .venv/.complete, and call ./isaaclab.sh again"
        return fail(f"torch can't be used: {_reason(torch)}", reinstall)
    text = f"torch {found['version']}"
    if found["available"]:
        return ok(f"{text}, {', '.join(found['devices'])}")
    if not hardware and driver is None:
        return ok(f"{text}; {_NO_GPU}")
    if environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return ok(f"{text}; CUDA_VISIBLE_DEVICES hides all GPUs")
    if found["cuda"] is None:
        return warn(f"{text} was built without CUDA", "install the torch of tools/requirements/main.lock")
    if driver is None:
        return warn(f"{text} needs CUDA {found['cuda']}, but there is no usable driver", _DRIVER)
    if driver["version"][0] < int(found["cuda"].partition(".")[0]):
        return warn(
            f"{text} needs CUDA {found['cuda']}, but the driver supports CUDA {_dotted(driver['version'])} only",
            "install a newer driver",
        )
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    named = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible}"
    return warn(f"{text} sees no GPU{named}", "check CUDA_VISIBLE_DEVICES, and nvidia-smi -L")


def check_egl(egl: Answer) -> Finding:
    """Check that videos can be recorded without a screen.

    Args:
        egl: Answer of the probe ``egl``.
    """
    found = json_of(egl)
    if found is not None:
        return ok(f"EGL {found['version']}, {found['vendor']}: videos can be recorded without a screen")
    return warn(
        f"no videos without a screen: {_reason(egl)}",
        "install libegl1, libgl1 and libegl-mesa0 (Debian, Ubuntu), or the graphics part of NVIDIA's driver "
        "(NVIDIA_DRIVER_CAPABILITIES=all in a container)",
    )


def check_step(device: str, step: Answer, limit_s: float) -> Finding:
    """Check that a simulation can be stepped.

    Args:
        device: ``cpu`` or ``cuda:N``.
        step: Answer of the probe ``step``.
        limit_s: How long was waited [s].
    """
    if step.status is None:
        return warn(
            f"16 cart-poles on {device} were not stepped in {limit_s:.0f} s; the first start compiles kernels",
            "run this again, or with --limit_s 300",
        )
    if step.status != 0:
        return fail(
            f"a simulation on {device} fails: {step.last_line}",
            f"see all of its output: python -m ledger_lab.cli.doctor.probes step {shlex.quote(device)}",
        )
    return ok(f"16 cart-poles on {device} were stepped")


def _dotted(version: list[int]) -> str:
    """Return a version as text."""
    return ".".join(map(str, version))
