"""Where structures of C keep their members.

MuJoCo's package describes its structures in Python (``mujoco.introspect``). From this description, :func:`layout` makes
the equal ``ctypes`` structure, which knows the offset of each member. For the structures of our own C++ code,
:func:`own_layout` reads the code.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache

from mujoco.introspect.ast_nodes import ArrayType, PointerType, ValueType
from mujoco.introspect.structs import STRUCTS

_VALUES: dict[str, type] = {
    "int": ctypes.c_int,
    "mjtBool": ctypes.c_bool,
    "mjtNum": ctypes.c_double,
    "mjtSize": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "uintptr_t": ctypes.c_size_t,
}


@cache
def layout(name: str) -> type[ctypes.Structure]:
    """Return the layout of one of MuJoCo's structures, up to its first member that is no pointer, number or structure.

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
    return layout(described.name) if described.name in STRUCTS else None


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
