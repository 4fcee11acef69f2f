"""Writes configurations as JSON values that are equal exactly if the configurations do the same, and hashes them."""

from __future__ import annotations

import functools
import hashlib
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from ledger_lab.ledger.encoding import canonical_json

_MODULE = re.compile(rb'"ledger_lab\.[\w.]+:')
"""Matches the beginning of the name of a function or class of LedgerLab."""


def plain_config(value: Any) -> Any:  # noqa: ANN401 - any configuration, any JSON value
    """Return a part of a configuration as JSON values that are the same on every machine and in every process.

    A function or a class becomes ``module:name``. If that does not tell all that it does, as with lambdas, closures and
    partial functions, its compiled code and the values that it holds follow. Arrays and files become the hashes of
    their content. Sets are sorted.

    Args:
        value: A configuration, or a part of one.
    """
    return _plain(value, ())


def config_sha256(cfg: Any, without: Sequence[str]) -> str:  # noqa: ANN401
    """Return the hash of a resolved configuration.

    Args:
        cfg: An environment's or an agent's configuration.
        without: Dotted paths of settings to leave out; they need not exist.
    """
    content = plain_config(cfg)
    for path in without:
        *groups, name = path.split(".")
        node = content
        for group in groups:
            node = node.get(group, {})
        node.pop(name, None)
    return plain_sha256(content)


def plain_sha256(content: Any) -> str:  # noqa: ANN401 - any result of plain_config
    """Return the hash of a part of a plain configuration.

    Functions and classes of LedgerLab count by name, and not by module: moving one changes no hash.

    Args:
        content: A result of :func:`plain_config`, or a part of it.
    """
    return hashlib.sha256(_MODULE.sub(b'"ledger_lab:', canonical_json(content))).hexdigest()


def _plain(value: Any, within: tuple[int, ...]) -> Any:  # noqa: ANN401
    """Return a value as JSON values.

    Args:
        value: The value.
        within: Ids of the objects that hold it, because a function may hold itself.
    """
    if id(value) in within:
        return "itself"

    def plain(inner: Any) -> Any:  # noqa: ANN401
        return _plain(inner, (*within, id(value)))

    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has no infinity
    if isinstance(value, str):
        is_file = value.startswith("/") and Path(value).is_file()
        return f"sha256:{hashlib.sha256(Path(value).read_bytes()).hexdigest()}" if is_file else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=canonical_json)
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type) or callable(value):
        return _plain_callable(value, plain)
    if (array := _array(value)) is not None:
        return array
    if isinstance(value, type(MISSING)):
        return {}
    state = _state(value)
    if hasattr(value, "__dataclass_fields__"):
        return plain(state)
    return plain({"class": type(value), **state}) if state or hasattr(value, "__dict__") else _text(value)


def _plain_callable(value: Any, plain: Any) -> Any:  # noqa: ANN401
    """Return a function, a class or an object that can be called as JSON values.

    Args:
        value: The function, class or object.
        plain: Returns what it holds as JSON values.
    """
    if isinstance(value, functools.partial):
        return {"partial": plain(value.func), "args": plain(value.args), "keywords": plain(value.keywords)}
    if isinstance(value, MethodType):
        return {"method": _name(value), "of": plain(value.__self__)}
    if not hasattr(value, "__qualname__"):
        return {"class": plain(type(value)), **plain(_state(value))}
    if _is_found_by_name(value) or not hasattr(value, "__dict__"):
        return _name(value)
    if isinstance(value, FunctionType):
        held = [plain(cell.cell_contents) for cell in value.__closure__ or ()]
        defaults = plain([value.__defaults__, value.__kwdefaults__])
        return {"function": _name(value), "code": _code(value.__code__), "holds": held, "defaults": defaults}
    if isinstance(value, type):
        members = {k: v for k, v in vars(value).items() if isinstance(v, FunctionType) or not k.startswith("_")}
        return {"class": _name(value), "bases": plain(value.__bases__), "members": plain(members)}
    return {"function": _name(value), "wraps": plain(getattr(value, "__wrapped__", None))}


def _name(value: Any) -> str:  # noqa: ANN401
    """Return the name of a function or class."""
    return f"{value.__module__}:{value.__qualname__}"


def _is_found_by_name(value: Any) -> bool:  # noqa: ANN401
    """Tell whether a name in a module leads to a function or class, so that the source of the module determines it."""
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _code(code: CodeType) -> list[Any]:
    """Return the compiled code of a function, without its place in a file."""
    constants = [_code(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return [code.co_code.hex(), constants, *map(list, (code.co_names, code.co_varnames, code.co_freevars))]


def _constant(value: Any) -> str:  # noqa: ANN401
    """Return a constant of compiled code; that of a set does not depend on the order of its values."""
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


def _array(value: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """Return type, shape and hash of an array of torch, NumPy or Warp; ``None`` if a value is none."""
    if isinstance(value, torch.Tensor):
        kind, content = value.dtype, value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy()
    elif isinstance(value, np.ndarray) and value.dtype != object:
        kind, content = value.dtype, value
    elif callable(getattr(value, "numpy", None)):
        kind, content = value.dtype, value.numpy()
    else:
        return None
    sha256 = hashlib.sha256(content.tobytes()).hexdigest()
    return {"dtype": str(kind), "shape": list(value.shape), "sha256": sha256}


def _state(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the attributes of an object."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    attributes = getattr(value, "__dict__", None) or {name: getattr(value, name, None) for name in slots}
    return {name: held for name, held in attributes.items() if not name.startswith("__")}


def _text(value: Any) -> str:  # noqa: ANN401
    """Return a value as a text, without its address in memory."""
    text = str(value)
    return _name(type(value)) if " at 0x" in text else text
