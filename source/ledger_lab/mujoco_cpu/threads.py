"""Threads that step the worlds, and that share the work of Warp's kernels on the CPU.

Warp runs a kernel on one thread. The items of most kernels are independent of each other: :func:`divide_launches` lets
several threads run such a kernel. Each item computes what it would compute alone, so results do not depend on the
number of threads. The threads are started once, and wait for work between tasks.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from functools import cache, partial
from importlib.resources import files
from typing import Any

import warp as wp
from warp._src import context
from warp._src.context import ModuleExec

_INDEPENDENT = {
    "newton._src.solvers.mujoco.kernels": (
        *("apply_mjc_control_kernel", "apply_mjc_qfrc_kernel", "apply_mjc_body_f_kernel"),
        *("apply_mjc_free_joint_f_to_body_f_kernel", "convert_warp_coords_to_mj_kernel"),
        *("convert_mj_coords_to_warp_kernel", "convert_rigid_forces_from_mj_kernel"),
        "convert_qfrc_actuator_from_mj_kernel",
        "create_convert_mjw_contacts_to_newton_kernel__locals__convert_mjw_contacts_to_newton_kernel",
    ),
    "newton._src.sim.articulation": ("eval_articulation_fk",),
    "newton._src.sensors.sensor_contact": ("compute_sensing_transforms_kernel",),
    "newton._src.actuators.actuator": ("_scatter_add_kernel",),
    "newton._src.actuators.drives.drive_pd": ("_pd_effort_kernel",),
    "newton._src.actuators.clamping.clamping_dc_motor": ("_clamp_dc_motor_kernel",),
    "isaaclab.actuators.newton.kernels": ("zero_at_indices_kernel", "sync_torque_telemetry"),
    "isaaclab.actuators.actuator_kernels": ("compute_implicit_actuator_batch", "write_2d_float_with_indices"),
    "isaaclab.assets.articulation.ordering_kernels": (
        *("reorder_joint_targets_user_to_backend", "reorder_joint_state_backend_to_user"),
        "reorder_body_state_backend_to_user",
    ),
    "isaaclab_newton.assets.articulation.kernels": (
        *("get_body_com_acc_from_body_com_vel_ordered", "get_joint_acc_from_joint_vel"),
    ),
    "isaaclab_newton.sensors.contact_sensor.contact_sensor_kernels": (
        *("copy_from_newton_kernel", "update_contact_sensor_kernel", "compute_first_transition_kernel"),
    ),
    "isaaclab_newton.sensors.joint_wrench.kernels": ("joint_wrench_to_incoming_joint_frame_kernel",),
}
"""Kernels whose items neither add to common numbers nor read what other items write, by module."""


def own_layout(source: str, name: str) -> type[ctypes.Structure]:
    """Return the layout of a structure of our own C++ code, whose members are all pointers or ``i64``.

    Args:
        source: The code.
        name: The name of the structure.
    """
    (body,) = re.findall(rf"struct {name} \{{(.*?)\n\}};", source, re.DOTALL)
    fields: list[tuple[str, type]] = []
    for statement in re.sub("//.*", "", body).split(";")[:-1]:
        function = re.search(r"\(\*(\w+)\)\(", statement)
        for member in [function[1]] if function else statement.split(","):
            ((of, count),) = re.findall(r"(\w+)(?:\[(\d+)\])?\s*$", member)
            fields.append((of, ctypes.c_int64 * int(count) if count else ctypes.c_int64))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_SOURCE = files("ledger_lab.mujoco_cpu").joinpath("threads.cpp").read_text()
_Pool, _Kernel = own_layout(_SOURCE, "Pool"), own_layout(_SOURCE, "Kernel")
_FUTEX = {"x86_64": 202, "aarch64": 98}
"""Number of the system call ``futex``, by processor."""


@wp.func_native(_SOURCE)
def _make_pool(pool: wp.uint64) -> None: ...


@wp.kernel(enable_backward=False)
def _make(pool: wp.uint64) -> None:
    """Write the addresses of the functions into a pool."""
    _make_pool(pool)


@cache
def pool() -> Any:  # noqa: ANN401 - a ctypes structure made from threads.cpp
    """Return the threads of this process, described as in ``threads.cpp``; at first, only the calling thread works."""
    system = ctypes.CDLL(None)
    made = _Pool(
        create=_address(system.pthread_create),
        block_signals=_address(system.pthread_sigmask),
        system_call=_address(system.syscall),
        clock=_address(system.clock_gettime),
        futex=_FUTEX[platform.machine()],
        threads=1,
    )
    os.register_at_fork(after_in_child=partial(_forget_threads, made))
    wp.launch(_make, dim=1, inputs=[wp.uint64(ctypes.addressof(made))], device="cpu")
    return made


def _forget_threads(made: Any) -> None:  # noqa: ANN401 - see pool
    """Let only the calling thread work: a forked process has none of the other threads."""
    made.threads = 1
    made.started = made.working = made.asleep = made.taken = 0


@cache
def divide_launches() -> None:
    """From now on, divide launches of the kernels in :data:`_INDEPENDENT` among the threads of :func:`pool`."""
    threads = pool()
    kernels = (_Kernel * threads.n_entries)()
    entries = (ctypes.c_void_p * threads.n_entries).from_address(threads.entries)
    threads.kernels = ctypes.addressof(kernels)
    divided: list[Any] = [kernels]  # keeps objects alive that the threads use
    original = ModuleExec.get_kernel_hooks

    def get_kernel_hooks(module: Any, kernel: Any) -> Any:  # noqa: ANN401 - Warp's own
        hooks = original(module, kernel)
        if (
            module.device.is_cpu
            and kernel.key in _INDEPENDENT.get(kernel.module.name, ())
            and not hasattr(hooks, "divided")
            and len(divided) <= len(entries)
        ):
            hooks.divided = number = len(divided) - 1
            divided.append(hooks.forward)
            kernels[number] = _Kernel(
                whole=_address(hooks.forward), item=_item(module.handle, kernel), wide=kernel.adj.kernel_dim > 2
            )
            hooks.forward = ctypes.CFUNCTYPE(None)(entries[number])
        return hooks

    ModuleExec.get_kernel_hooks = get_kernel_hooks


def _item(handle: str, kernel: Any) -> int:  # noqa: ANN401 - Warp's own
    """Return the address of the function that runs one item of a kernel.

    Warp compiles ``void NAME_cpu_kernel_forward(wp::launch_bounds_t<DIM>, size_t, wp_args_NAME*)``; the linker knows it
    by the name that the C++ ABI gives it.

    Args:
        handle: Warp's handle of the compiled module.
        kernel: A kernel of the module.

    Raises:
        RuntimeError: If there is no such function.
    """
    name = kernel.get_mangled_name()
    function, arguments = f"{name}_cpu_kernel_forward", f"wp_args_{name}"
    bounds = f"N2wp15launch_bounds_tILi{kernel.adj.kernel_dim}EEE"
    symbol = f"_Z{len(function)}{function}{bounds}mP{len(arguments)}{arguments}"
    address: int = context.runtime.llvm.wp_lookup(handle.encode(), symbol.encode())
    if not address:
        raise RuntimeError(f"Warp {wp.__version__} does not compile kernels as expected: no {symbol}")
    return address


def _address(function: Any) -> int:  # noqa: ANN401 - any kind of function of ctypes
    """Return the address of a function of C."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
