"""What CUDA, NVML, torch and Warp say about a device, each by itself; prints JSON.

Each question may fail: its answer is then the error's text.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def of_torch(device: str) -> dict[str, Any]:
    """Return torch's versions, and what it can compute on."""
    import torch

    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "device_count": torch.cuda.device_count(),
        "architectures": torch.cuda.get_arch_list(),
    }


def device_of_torch(device: str) -> dict[str, Any]:
    """Return the properties of the device, and a product that it computed."""
    import torch

    ones = torch.ones(1024, 1024, device=device)
    found: dict[str, Any] = {"product_is_right": bool((ones @ ones == 1024).all())}
    if device == "cpu":
        return found
    properties = torch.cuda.get_device_properties(device)
    return found | {
        "name": properties.name,
        "uuid": str(properties.uuid),
        "capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
    }


def of_warp(device: str) -> dict[str, Any]:
    """Return Warp's version, and CUDA's versions as Warp sees them."""
    import warp

    warp.init()
    found = {"version": warp.__version__, "kernel_cache": str(warp.config.kernel_cache_dir)}
    if not warp.is_cuda_available():
        return found
    return found | {"toolkit": warp.get_cuda_toolkit_version(), "driver": warp.get_cuda_driver_version()}


def device_of_warp(device: str) -> dict[str, Any]:
    """Return what Warp says about the device, and an array that it filled."""
    import warp

    used = warp.get_device(device)
    numbers = warp.full(1000, 2.0, dtype=float, device=used).numpy()
    return {
        "name": used.name,
        "uuid": used.uuid if used.is_cuda else None,
        "architecture": used.arch,
        "memory_pool": used.is_mempool_enabled,
        "numbers_are_right": bool((numbers == 2.0).all()),
    }


def of_nvml(device: str) -> dict[str, Any]:
    """Return the driver's version, and the first sample of the device that a training would use."""
    import time

    import pynvml

    from ledger_lab.ledger.meters.gpu import GpuMeter

    pynvml.nvmlInit()
    said: list[str] = []
    meter = GpuMeter(time.perf_counter_ns(), said.append, limit_s=20)
    samples = [vars(sample) for sample in meter.sample(int(device.partition(":")[2] or 0))]
    meter.close()
    return {"driver": pynvml.nvmlSystemGetDriverVersion(), "samples": samples, "complaints": said}


def of_nvidia_smi(device: str) -> dict[str, Any]:
    """Return the list of devices by the driver's own program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {"missing": "nvidia-smi is not on PATH"}
    done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=20, check=False)
    return {"devices": done.stdout.splitlines(), "exit_status": done.returncode}


def of_host(device: str) -> dict[str, Any]:
    """Return processor, memory and package versions."""
    from ledger_lab.ledger.meters.host import hardware_facts, package_versions

    return {**hardware_facts(), "versions": package_versions()}


ASKED: dict[str, Callable[[str], dict[str, Any]]] = {
    "host": of_host,
    "nvml": of_nvml,
    "nvidia_smi": of_nvidia_smi,
    "torch": of_torch,
    "torch_device": device_of_torch,
    "warp": of_warp,
    "warp_device": device_of_warp,
}
_NEEDED = {"torch_device": "product_is_right", "warp_device": "numbers_are_right"}
"""The answers that a device must give, with the entry that tells whether it computes correctly."""


def main(arguments: Sequence[str]) -> int:
    """Write all answers.

    Args:
        arguments: File to write, and device.

    Returns:
        0, or 1 if torch or Warp can't use the device, or computes wrong numbers on it.
    """
    path, device = Path(arguments[0]), arguments[1]
    found: dict[str, dict[str, Any]] = {}
    for name, ask in ASKED.items():
        try:
            found[name] = ask(device)
        except Exception as error:  # noqa: BLE001 - the other answers still count
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        path.write_text(json.dumps(found, indent=2), encoding="utf-8")  # so far, as the next question may hang
    unusable = [
        f"{name}: {found[name].get('error', f'{right} is false')}"
        for name, right in _NEEDED.items()
        if not found[name].get(right)
    ]
    if unusable:
        sys.stderr.write("\n".join(unusable) + "\n")
    return 1 if unusable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
