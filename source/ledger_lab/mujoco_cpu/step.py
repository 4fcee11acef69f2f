"""Steps all worlds with MuJoCo's C code, without Python between the worlds.

:class:`Stepper` owns a model and data of MuJoCo for each thread. Before a step of a world, a thread copies the world's
state, controls and forces from MuJoCo-Warp's arrays into its data, and afterwards copies the results back; what MuJoCo
keeps between steps (warm starts, activations) stays in MuJoCo-Warp's arrays. So a world's step depends on the world
alone, not on the thread that takes it.
"""

from __future__ import annotations

import copy
import ctypes
from functools import cache
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import warp as wp
from mujoco.introspect.ast_nodes import ArrayType, PointerType, ValueType
from mujoco.introspect.structs import STRUCTS

from ledger_lab.errors import UserError
from ledger_lab.mujoco_cpu.threads import own_layout, pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mujoco import MjModel

_INPUTS = (
    *("qpos", "qvel", "act", "history", "time", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied"),
    *("mocap_pos", "mocap_quat"),
)
"""What a step reads, MuJoCo's integration state. Besides, it reads which equality constraints act."""

_STATE = ("qpos", "qvel", "act", "history", "time", "qacc", "qacc_warmstart")
"""What a step hands to the next one."""

_OUTPUTS = ("xpos", "xquat", "qfrc_actuator", "actuator_force")
"""What else Newton, Isaac Lab and their sensors may read after a step."""

_OUTPUTS_OF_BODIES = ("xipos", "subtree_com", "cvel", "cacc", "cfrc_int")
"""Values from which Newton computes accelerations of bodies and forces between bodies."""

_HELD = ("qvel", "qacc", "qacc_warmstart")
"""What is zero of a world that cannot be stepped."""

_SHAPES = ("geom_size", "geom_pos", "geom_quat", "geom_rbound", "geom_aabb")
"""Fields of the model that MuJoCo's search trees are built from."""

_FRAMES = ("body_ipos", "body_iquat")
_SIMPLE = ("body_mass", "body_inertia", "dof_armature", *_FRAMES)
"""Fields of the model from which MuJoCo computes fixed inertias of bodies that it calls simple."""

_UNANNOUNCED = ("geom_friction",)
"""Fields of the model that perturbations change without a notice to the solver."""

_ERROR = 1 << 30
"""Bit of a world's status, beside those of ``mjtWarning``: a step whose result cannot be used."""

_FULL = ("CONTACTFULL", "CNSTRFULL")
"""Warnings of MuJoCo that contacts or constraints were lost for lack of memory."""

_CONTACT_NUMBERS = 22
"""Numbers of a contact before it is put in the order of the worlds; ``NUMBERS`` in ``step.cpp``."""


_VALUES: dict[str, type] = {
    "int": ctypes.c_int,
    "mjtBool": ctypes.c_bool,
    "mjtNum": ctypes.c_double,
    "mjtSize": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "uintptr_t": ctypes.c_size_t,
}
"""Types of numbers in MuJoCo's structures."""


def _bits(*warnings: str) -> int:
    """Return the bits of a status that stand for warnings of MuJoCo."""
    return sum(1 << getattr(mujoco.mjtWarning, f"mjWARN_{name}").value for name in warnings)


_SOURCE = files("ledger_lab.mujoco_cpu").joinpath("step.cpp").read_text()
_Rows, _Thread, _Job = (own_layout(_SOURCE, name) for name in ("Rows", "Thread", "Job"))


@wp.func_native(_SOURCE)
def _step_worlds(job: wp.uint64, read: int) -> None: ...


@wp.kernel(enable_backward=False)
def _step(job: wp.uint64, read: int) -> None:
    """Step all worlds on the one thread of Warp and the threads of the pool."""
    _step_worlds(job, read)


class Stepper:
    """Steps the worlds of a Newton scene."""

    UNSTABLE = _ERROR | _bits("BADQPOS", "BADQVEL", "BADQACC")
    """Bits of a status that mean that a world could not be stepped: MuJoCo gave up with an error, called the state
    unstable, or had no memory for all contacts and constraints. The world stays where it was, without velocity."""

    OUT_OF_MEMORY = _bits(*_FULL)
    """Bits of a status that mean that MuJoCo had no memory for all contacts or constraints."""

    UNSEEN = 1 << 29
    """Bit of a status that means that contacts or constraints found no room in the arrays that sensors read."""

    DROPPED = UNSEEN | OUT_OF_MEMORY
    """Bits of a status that mean either of these."""

    def __init__(self, model: MjModel, warp_model: Any, warp_data: Any, threads: int) -> None:  # noqa: ANN401
        """Make a model and data for each thread.

        Args:
            model: MuJoCo's model, as Newton compiled it.
            warp_model: MuJoCo-Warp's model, which holds the values of single worlds.
            warp_data: MuJoCo-Warp's data: state, controls, results of all worlds.
            threads: Number of threads.

        Raises:
            UserError: If bodies may sleep: MuJoCo would keep what sleeps from one world to the next.
        """
        if model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_SLEEP):
            raise UserError("physics=newton_mujoco cannot let bodies sleep: choose physics=newton_mjwarp")
        self._data = warp_data
        self._worlds = warp_data.nworld
        self._kept: list[Any] = []  # memory that the kernel uses
        fields = _fields(model, warp_model, self._worlds)
        self._at_first = {name: rows.numpy()[0].reshape(-1).copy() for name, rows in fields.items()}
        model = _as_warp_has_it(model, self._at_first)
        self._simple = {*np.flatnonzero((model.body_simple != 0) & (model.body_dofnum > 0))}
        self._models = [model, *(copy.copy(model) for _ in range(threads - 1))]
        self._threads_data = [mujoco.MjData(each) for each in self._models]
        self._compiled = {name: _place(model, name)[1].astype(float).reshape(-1).copy() for name in fields}
        self._fields = fields
        self.status = wp.zeros(self._worlds, dtype=int, device="cpu")
        """Bits of each world since they were last cleared: ``1 << mjtWarning``, and bits of :attr:`UNSTABLE`."""
        self.unread = 0
        """Number of next steps after which nothing reads body positions, forces and contacts; see
        :class:`~ledger_lab.mujoco_cpu.solver.NewtonNativeManager`."""
        self._job = self._describe(model, threads)
        self._check_layout()
        self.refresh()

    @property
    def copied(self) -> list[str]:
        """Fields of the model that are copied for each world before its step."""
        return [name for name, rows in zip(self._fields, self._job_fields, strict=True) if rows.copied]

    def step(self, read: bool = True) -> None:
        """Step all worlds.

        Args:
            read: Whether all results are read. Without it, positions of bodies, forces and contacts stay as they were.
        """
        wp.launch(_step, dim=1, inputs=[wp.uint64(ctypes.addressof(self._job)), int(read)], device="cpu")

    def want_post_constraint(self) -> None:
        """From now on, compute accelerations of bodies, and forces between them, too."""
        self._job.want_post_constraint, self._job.n_outputs = 1, self._n_outputs

    @property
    def timestep(self) -> float:
        """Length of a step in seconds."""
        return float(self._models[0].opt.timestep)

    @timestep.setter
    def timestep(self, seconds: float) -> None:
        for model in self._models:
            model.opt.timestep = seconds

    def refresh(self) -> None:
        """Look which fields of the model differ between worlds or were changed; these are copied before each step.

        Raises:
            UserError: If a field was changed that cannot differ between worlds.
        """
        for described, (name, rows) in zip(self._job_fields, self._fields.items(), strict=True):
            values = rows.numpy()
            if described.copied and name not in (*_SHAPES, *_SIMPLE):
                continue
            differing = values != self._at_first[name].reshape(values.shape[1:])
            if differing.any():
                described.copied = 1
                self._follow(name, {*np.flatnonzero(differing.any(axis=tuple({*range(values.ndim)} - {1})))})

    def _follow(self, name: str, items: set[int]) -> None:
        """Adapt what MuJoCo derived from a field when it compiled the model.

        Args:
            name: The field.
            items: Bodies, shapes or degrees of freedom of which it was changed.
        """
        model = self._models[0]
        if name in _SHAPES:
            raise UserError(
                f"physics=newton_mujoco cannot change shapes in single environments ({name} of "
                f"{model.geom(int(min(items))).name}): choose physics=newton_mjwarp"
            )
        bodies = {*model.dof_bodyid[[*items]]} if name == "dof_armature" else items
        if name in _SIMPLE and (simple := bodies & self._simple):
            raise UserError(
                f"physics=newton_mujoco cannot change the inertia of {model.body(int(min(simple))).name} in single "
                "environments, because MuJoCo treats it as fixed: choose physics=newton_mjwarp"
            )
        if name in _FRAMES:
            for each in self._models:
                _compute_frames(each, np.array([*items]))

    def _describe(self, model: MjModel, threads: int) -> Any:  # noqa: ANN401 - a ctypes structure made from step.cpp
        """Write down for the kernel where everything is."""
        data = self._data
        inputs, state, results, of_bodies, held = (
            [(name, getattr(data, name)) for name in names if _per_world(getattr(data, name, None), self._worlds)]
            for names in (_INPUTS, _STATE, _OUTPUTS, _OUTPUTS_OF_BODIES, _HELD)
        )
        outputs = [*state, *results, *of_bodies]
        self._n_outputs = len(outputs)
        self._job_fields = _rows(self._fields.items())
        for described, name in zip(self._job_fields, self._fields, strict=True):
            described.at_first = self._at_first[name].ctypes.data
            described.compiled = self._compiled[name].ctypes.data
            described.copied = name in _UNANNOUNCED
        tables = [self._job_fields, *map(_rows, (inputs, outputs, held))]
        workers = (_Thread * threads)()
        for worker, each, own in zip(workers, self._models, self._threads_data, strict=True):
            places = [
                _addresses([_place(each, name)[0] for name in self._fields]),
                *(_addresses([_place(own, name)[0] for name, _ in named]) for named in (inputs, outputs)),
            ]
            worker.model, worker.data, worker.active = each._address, own._address, own.eq_active.ctypes.data
            worker.fields, worker.inputs, worker.outputs = (ctypes.addressof(each) for each in places)
            self._kept += places
        per_world = min(data.naconmax, 4 * -(-data.naconmax // self._worlds))
        found = np.empty((self._worlds, per_world, _CONTACT_NUMBERS), np.float32)
        ncon = np.zeros(self._worlds, np.int32)
        place = np.zeros(self._worlds, np.int32)
        self._kept += [*tables, workers, found, ncon, place]
        helpers = pool()
        helpers.threads = threads
        contact, of_data, of_contact = data.contact, _layout("mjData"), _layout("mjContact")
        job = _Job(
            **_functions(model),
            run=helpers.run,
            pool=ctypes.addressof(helpers),
            key=_key(),
            worlds=self._worlds,
            threads=threads,
            block=block_size(self._worlds, threads),
            thread=ctypes.addressof(workers),
            **{
                key: value
                for name, table in zip(("fields", "inputs", "outputs", "held"), tables, strict=True)
                for key, value in ((name, ctypes.addressof(table)), (f"n_{name}", len(table)))
            },
            n_state=len(state),
            active=data.eq_active.ptr or 0,
            n_active=model.neq,
            status=self.status.ptr,
            unusable=self.UNSTABLE | _bits(*_FULL),
            warnings=of_data.warning.size // ctypes.sizeof(_layout("mjWarningStat")),
            **{
                f"at_{name}": getattr(of_data, name).offset
                for name in ("warning", "ncon", "nefc", "contact", "efc_force")
            },
            contact_size=ctypes.sizeof(of_contact),
            **{
                f"at_{name}": getattr(of_contact, name).offset
                for name in ("dist", "pos", "frame", "friction", "dim", "geom", "efc_address")
            },
            nefc=data.nefc.ptr,
            efc_force=data.efc.force.ptr,
            efc_stride=data.efc.force.strides[0] // 4,
            njmax=data.njmax,
            found=found.ctypes.data,
            found_per_world=per_world,
            ncon=ncon.ctypes.data,
            place=place.ctypes.data,
            nacon=data.nacon.ptr,
            naconmax=data.naconmax,
            ncollision=data.ncollision.ptr,
            **{name: getattr(contact, name).ptr for name in ("dist", "pos", "frame", "friction", "dim", "geom")},
            efc_address=contact.efc_address.ptr,
            efc_address_stride=contact.efc_address.shape[1],
            world=contact.worldid.ptr,
        )
        job.n_outputs -= len(of_bodies)  # see want_post_constraint
        return job

    def _check_layout(self) -> None:
        """Compare what the described structures say with what MuJoCo's package says of the same data."""
        data = self._threads_data[0]
        seen = _layout("mjData").from_address(data._address)
        mismatched = [name for name in ("qpos", "qvel", "xpos", "qacc") if getattr(seen, name) != _place(data, name)[0]]
        if mismatched or seen.narena != data.narena:
            raise RuntimeError(f"MuJoCo {mujoco.__version__}: mjData is not as mujoco.introspect describes it")


def block_size(worlds: int, threads: int) -> int:
    """Return how many worlds a thread takes at once: few, so that all threads end at about the same time.

    Args:
        worlds: Number of worlds.
        threads: Number of threads.
    """
    return max(1, min(16, worlds // (4 * threads)))


def _fields(model: MjModel, warp_model: Any, worlds: int) -> dict[str, wp.array]:  # noqa: ANN401
    """Return the numbers of MuJoCo-Warp's model that can differ between worlds, by their name in MuJoCo's model."""
    found = {
        name: rows
        for name, rows in vars(warp_model).items()
        if hasattr(model, name) and _per_world(rows, worlds) and _place(model, name)[1].size == _count(rows)
    }
    single = {f"opt.{name}": getattr(warp_model.opt, name) for name in ("gravity", "wind", "magnetic")}
    single["stat.meaninertia"] = warp_model.stat.meaninertia
    return found | {name: rows for name, rows in single.items() if _per_world(rows, worlds)}


def _per_world(rows: Any, worlds: int) -> bool:  # noqa: ANN401
    """Tell whether an object is an array of single precision with a row of at least one number for each world."""
    if not isinstance(rows, wp.array) or rows.ndim == 0 or rows.shape[0] != worlds or rows.size == 0:
        return False
    values = rows.numpy()  # no copy: on the CPU, it is the same memory
    return values.dtype == np.float32 and (worlds == 1 or values.strides[0] > 0) and values[0].flags.c_contiguous


def _count(rows: wp.array) -> int:
    """Return how many numbers of an array belong to a world."""
    return prod(rows.numpy().shape[1:])


def _place(owner: Any, name: str) -> tuple[int, np.ndarray]:  # noqa: ANN401 - mjModel or mjData
    """Return where a number or an array of MuJoCo is in memory, and its present values."""
    if name == "stat.meaninertia":
        center = owner.stat.center.ctypes.data - _layout("mjStatistic").center.offset
        return center + _layout("mjStatistic").meaninertia.offset, np.array([owner.stat.meaninertia])
    if name == "time":
        return owner._address + _layout("mjData").time.offset, np.array([owner.time])
    for part in name.split("."):
        owner = getattr(owner, part)
    return owner.ctypes.data, owner


def _rows(named: Iterable[tuple[str, wp.array]]) -> ctypes.Array[Any]:
    """Describe arrays to the kernel."""
    described = [_Rows(rows=rows.ptr, stride=rows.strides[0] // 4, count=_count(rows)) for _, rows in named]
    return (_Rows * len(described))(*described)


def _addresses(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """Return addresses as an array of C."""
    return (ctypes.c_int64 * len(addresses))(*addresses)


def _as_warp_has_it(model: MjModel, values: Mapping[str, np.ndarray]) -> MjModel:
    """Return a copy of a model, with the values of MuJoCo-Warp's model where these are the same but for rounding.

    So it makes no difference whether a field is copied for a world or is left as it was compiled. Values that are not
    the same (limits of joints without limits, the place of a height field) stay as they were compiled. The frames of
    inertia have several equal forms; the model gets the one that Newton uses.

    MuJoCo's midphase is off. It searches the shapes of a body in a tree of boxes, and the boxes were computed relative
    to the compiled frame of inertia: with any other frame, it misses contacts.

    Args:
        model: The compiled model.
        values: Numbers of MuJoCo-Warp's model, by field.
    """
    model = copy.copy(model)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET | mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    if "body_iquat" in values:
        frames, inertia = values["body_iquat"].reshape(-1, 4), values["body_inertia"].reshape(-1, 3)
        turned = ~_same(model.body_iquat, frames).all(axis=1) & (model.body_simple == 0)
        model.body_iquat[turned], model.body_inertia[turned] = frames[turned], inertia[turned]
        _compute_frames(model, np.flatnonzero(turned))
    for name, new in values.items():
        if name == "stat.meaninertia":
            model.stat.meaninertia = float(new[0])
            continue
        old = _place(model, name)[1]
        flat = old.reshape(-1)
        old[...] = np.where(_same(flat, new), new, flat).reshape(old.shape)
    return model


def _compute_frames(model: MjModel, bodies: np.ndarray) -> None:
    """Let MuJoCo compute frames that equaled frames of inertia when the model was compiled, and were copied since.

    Args:
        model: The model.
        bodies: Indices of the bodies whose frames of inertia change.
    """
    frames = mujoco.mjtSameFrame
    model.body_sameframe[bodies] = int(frames.mjSAMEFRAME_NONE)
    copied = (int(frames.mjSAMEFRAME_INERTIA), int(frames.mjSAMEFRAME_INERTIAROT))
    for owner, same in ((model.geom_bodyid, model.geom_sameframe), (model.site_bodyid, model.site_sameframe)):
        same[np.isin(owner, bodies) & np.isin(same, copied)] = int(frames.mjSAMEFRAME_NONE)


def _same(compiled: np.ndarray, rounded: np.ndarray) -> np.ndarray:
    """Tell which numbers differ by rounding to single precision only; shape of the arguments."""
    return np.isclose(compiled, rounded, rtol=1e-5, atol=1e-6)


def _functions(model: MjModel) -> dict[str, int]:
    """Return the addresses of the functions that the kernel calls for a model."""
    library = ctypes.CDLL(str(Path(mujoco.__file__).with_name(f"libmujoco.so.{mujoco.__version__}")))
    system = ctypes.CDLL(None)
    integrators = {
        mujoco.mjtIntegrator.mjINT_EULER: library.mj_Euler,
        mujoco.mjtIntegrator.mjINT_RK4: library.mj_RungeKutta,
        mujoco.mjtIntegrator.mjINT_IMPLICIT: library.mj_implicit,
        mujoco.mjtIntegrator.mjINT_IMPLICITFAST: library.mj_implicit,
    }
    named = {
        "step": library.mj_step,
        "reset_data": library.mj_resetData,
        "check_position": library.mj_checkPos,
        "check_velocity": library.mj_checkVel,
        "forward": library.mj_forward,
        "check_acceleration": library.mj_checkAcc,
        "post_constraint": library.mj_rnePostConstraint,
        "integrate": integrators[mujoco.mjtIntegrator(model.opt.integrator)],
        "set_log_handler": library._mjPRIVATE_setTlsLogHandler,
        "get_specific": system.pthread_getspecific,
        "set_specific": system.pthread_setspecific,
    }
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in named.items()}


@cache
def _key() -> int:
    """Return the key under which each thread finds itself again after an error (``pthread_key_create``)."""
    key = ctypes.c_uint()
    if error := ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None):
        raise OSError(error, "pthread_key_create failed")
    return key.value


@cache
def _layout(name: str) -> type[ctypes.Structure]:
    """Return the layout of one of MuJoCo's structures, up to its first member that is no pointer, number or structure.

    MuJoCo's package describes its structures in Python.

    Args:
        name: The name in C, like ``mjData``.
    """
    fields = []
    for field in STRUCTS[name].fields:
        kind = _ctype(field.type)
        if kind is None:
            break
        fields.append((field.name, kind))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _ctype(described: ValueType | ArrayType | PointerType) -> type | None:
    """Return the ``ctypes`` type of a described type; ``None`` if there is none."""
    if isinstance(described, PointerType):
        return ctypes.c_void_p
    if isinstance(described, ArrayType):
        kind = _ctype(described.inner_type)
        for extent in reversed(described.extents):
            kind = None if kind is None else kind * extent
        return kind
    if described.name in _VALUES:
        return _VALUES[described.name]
    return _layout(described.name) if described.name in STRUCTS else None
