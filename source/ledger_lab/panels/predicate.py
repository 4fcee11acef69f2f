"""Imports the success function of a panel, and checks that it does not mix slots."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ledger_lab.errors import UserError
from ledger_lab.panels.panel import Panel

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

type Predicate = Callable[..., torch.Tensor]
"""Called with the environment and the panel's parameters; returns a boolean tensor of shape (num_envs,)."""


def resolve_success(panel: Panel) -> Predicate:
    """Import the success function of a panel.

    Args:
        panel: The panel.

    Raises:
        UserError: If the function can't be imported, or doesn't accept an environment and the panel's parameters.
    """
    module, _, name = panel.success_function.partition(":")
    source = Path(panel.source)
    if source.is_absolute() and str(source.parent) not in sys.path:
        sys.path.append(str(source.parent))  # a module beside the panel file; last, so that it hides no other
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        raise UserError(
            f"panel {panel.name}: module {module!r} of success function {panel.success_function!r} cannot be "
            f"imported: {type(error).__name__}: {error}"
        ) from error
    try:
        function: Predicate = getattr(imported, name)
        inspect.signature(function).bind(None, **panel.success_params)
    except Exception as error:
        raise UserError(
            f"panel {panel.name}: success function {panel.success_function!r} cannot be called with "
            f"{panel.success_params}: {error}"
        ) from error
    return function


def checked_success(panel: Panel, env: ManagerBasedRLEnv) -> Predicate:
    """Import the success function, and call it once to check its result and the operations that it uses.

    Args:
        panel: The panel.
        env: The environment in which the panel's episodes run.

    Raises:
        UserError: If the function fails, does not return one truth value per environment, or mixes environments.
    """
    base = env.unwrapped
    function = resolve_success(panel)
    name = f"panel {panel.name}: success function {panel.success_function!r}"
    watch = _Mixing(base.num_envs)
    try:
        with watch:
            answer = function(base, **panel.success_params)
    except Exception as error:
        raise UserError(f"{name} fails in {panel.task}: {type(error).__name__}: {error}") from error
    if not isinstance(answer, torch.Tensor):
        raise UserError(f"{name} returns a {type(answer).__name__}: it must return a tensor")
    if answer.dtype != torch.bool or answer.shape != (base.num_envs,):
        raise UserError(
            f"{name} returns {answer.dtype} of shape {tuple(answer.shape)}: it must return torch.bool of shape "
            "(num_envs,)"
        )
    if watch.found is not None:
        raise UserError(
            f"{name} mixes environments: torch.{watch.found} combines values of several environments. Compute the "
            "success of each environment from its own values"
        )
    return function


_REDUCTIONS = frozenset(
    ("all", "amax", "amin", "any", "argmax", "argmin", "argsort", "cummax", "cummin", "cumprod", "cumsum", "flip")
    + ("histc", "kthvalue", "linalg_vector_norm", "logsumexp", "max", "mean", "median", "min", "mode", "nanmean")
    + ("nanmedian", "nansum", "norm", "prod", "quantile", "roll", "softmax", "_softmax", "sort", "std", "std_mean")
    + ("sum", "topk", "unique", "unique2", "_unique2", "var", "var_mean")
)
"""Operations of torch that mix the values along a dimension."""

_PICKING = frozenset({"select", "slice", "index", "index_select", "gather", "cat", "as_strided"})
"""Operations of torch that select or join rows along a dimension."""

_CONTRACTIONS = frozenset({"mm", "addmm", "mv", "dot", "vdot"})
"""Operations of torch that sum over the first dimension of their second operand."""


class _Mixing(TorchDispatchMode):
    """Records the first operation that mixes environments."""

    def __init__(self, num_envs: int) -> None:
        """Start with no operation recorded.

        Args:
            num_envs: Number of environments. A single environment cannot be mixed.
        """
        super().__init__()
        self._num_envs = num_envs
        self.found: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        """Check an operation, then run it."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if self.found is None and self._num_envs > 1 and self._mixes(func, name, args, kwargs):
            self.found = name.strip("_")
        return func(*args, **kwargs)

    def _mixes(self, func: Any, name: str, args: Any, kwargs: Any) -> bool:
        """Tell whether an operation combines the rows of different environments."""
        if torch.Tag.nondeterministic_seeded in func.tags or name == "_local_scalar_dense":
            return True
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        if name in _PICKING:
            return self._picks(name, args)
        if name in _CONTRACTIONS:
            return any(tensor.shape[:1] == (self._num_envs,) for tensor in tensors[-1:])
        if name not in _REDUCTIONS or not tensors:
            return False
        shape, own = tensors[0].shape, 0
        if self._num_envs in shape:
            own = shape.index(self._num_envs)
        elif not tensors[0].numel() or tensors[0].numel() % self._num_envs:
            return False  # a constant
        elif not shape or shape[0] % self._num_envs:
            return True  # rows of different environments side by side
        if len(tensors) > 1 and name in ("max", "min"):  # elementwise, with another tensor
            return False
        arguments = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
        along = next((arguments[key] for key in ("dim", "dims") if arguments.get(key) is not None), None)
        if along is None:
            return not (name in ("sort", "argsort", "topk", "kthvalue") and own < tensors[0].dim() - 1)
        dimensions = along if isinstance(along, list | tuple) else [along]
        return not dimensions or any(dimension % tensors[0].dim() == own for dimension in dimensions)

    def _picks(self, name: str, args: Any) -> bool:
        """Tell whether an operation selects some environments, or joins rows."""
        if name == "cat":
            parts, dimension = args[0], args[1] if len(args) > 1 else 0
            return dimension == 0 and any(part.dim() and part.shape[0] > 1 for part in parts)
        if args[0].shape[:1] != (self._num_envs,):
            return False
        if name == "index":
            return bool(args[1]) and args[1][0] is not None
        dimension = args[1] if len(args) > 1 else 0
        if name == "slice":
            begin, end = (args[2] if len(args) > 2 else 0) or 0, args[3] if len(args) > 3 else None
            return dimension == 0 and (begin != 0 or (end is not None and end < self._num_envs))
        return name == "as_strided" or dimension == 0
