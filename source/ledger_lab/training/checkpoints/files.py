"""Exported policy files that run without the RL library, Isaac Lab or LedgerLab.

Both files take one tensor ``obs`` of shape (batch, observations) and give ``actions`` of shape (batch, actions), in
float32. They contain everything between observation groups and actions: clipping, normalizer, network and limits. If
the policy has a memory, they also take each part of it, and give each part of the next memory.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from isaaclab_rl.entrypoints.common import scoped_torch_backend_flags
from onnx.reference import ReferenceEvaluator

from ledger_lab.errors import UserError
from ledger_lab.panels.policy import Acting
from ledger_lab.tasks.exported import CONTRACT, POLICY
from ledger_lab.training.runners.checkpoint_file import ActingModule

INPUT, OUTPUT = "obs", "actions"
"""Names of the input and of the output."""
MEMORY, NEXT_MEMORY = "memory_{}", "next_memory_{}"
"""Names of the inputs and outputs for the parts of a memory, by their numbers."""
GRAPH = "policy.onnx"
"""File name of the policy as ONNX; :data:`~ledger_lab.tasks.exported.POLICY` is the one as TorchScript."""
OPSET = 18
"""Version of the ONNX operators; runtimes have supported it since 2023."""
_ADDED_BY_TORCH = ("version", ".data/serialization_id")
"""Records that torch adds to every TorchScript file."""

type Groups = Mapping[str, torch.Tensor]


class FlatPolicy(torch.nn.Module):
    """A policy with one flat observation, the concatenation of the groups that it reads."""

    def __init__(self, policy: ActingModule, groups: Groups) -> None:
        """Determine which groups the policy reads.

        Args:
            policy: The policy.
            groups: Observations, shape (n, ...) each.

        Raises:
            UserError: If a group is not a floating-point tensor, or the policy reads no group.
        """
        super().__init__()
        for name, value in groups.items():
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                raise UserError(
                    f"observation group {name!r} is not a single tensor of floats, so the policy cannot be exported: "
                    "let the task give floats, and concatenate its terms"
                )
        self.policy = policy
        self._shapes = {name: value.shape[1:] for name, value in groups.items()}
        # NaN spreads to everything that is computed from it, so this works for every library.
        spoiled = ({**groups, name: torch.full_like(value, math.nan)} for name, value in groups.items())
        read = [bool(Acting(policy)(each).isnan().any()) for each in spoiled]
        self.groups = [name for name, is_read in zip(groups, read, strict=True) if is_read]
        """Groups that the policy reads, in the order of the flat observation."""
        if not self.groups:
            raise UserError(f"the actions of the policy do not depend on any observation ({', '.join(groups)})")

    @property
    def sizes(self) -> list[int]:
        """Number of values per group."""
        return [self._shapes[name].numel() for name in self.groups]

    def flatten(self, groups: Groups) -> torch.Tensor:
        """Return groups as flat observations of shape (n, observations)."""
        return torch.cat([groups[name].flatten(1) for name in self.groups], dim=1)

    def memory(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Return the memory at the start of episodes, empty without a memory."""
        return self.policy.memory(rows)

    def forward(self, obs: torch.Tensor, *memory: torch.Tensor) -> Any:
        """Return the actions, shape (n, actions), for flat observations of shape (n, observations).

        With a memory, return a tuple of the actions and of each part of the next memory.
        """
        seen = dict(zip(self.groups, obs.split(self.sizes, dim=1), strict=True))
        groups = {
            name: seen[name].unflatten(1, shape) if name in seen else obs.new_zeros(obs.shape[0], *shape)
            for name, shape in self._shapes.items()
        }
        return self.policy(groups, *memory)


@dataclass(frozen=True)
class PolicyFile:
    """The content of a file, and a function that runs it."""

    name: str
    content: bytes
    run: Callable[..., Any]
    """Runs the content, as :meth:`FlatPolicy.forward` does."""
    memory: Callable[[int], tuple[torch.Tensor, ...]] = lambda rows: ()
    """Returns the memory at the start of episodes, as :meth:`FlatPolicy.memory` does."""

    def __call__(self, obs: Any, *memory: torch.Tensor) -> Any:
        """Run the content."""
        return self.run(obs, *memory)


def policy_files(policy: FlatPolicy, example: torch.Tensor, contract: str) -> list[PolicyFile]:
    """Return a policy as ``policy.pt`` (TorchScript) and ``policy.onnx``, on the CPU.

    Args:
        policy: The policy; it must not be used afterwards.
        example: Flat observations of shape (n, observations).
        contract: Text that is stored in both files.
    """
    inputs = (example, *policy.memory(len(example)))
    parts, next_parts = ([name.format(n) for n in range(len(inputs) - 1)] for name in (MEMORY, NEXT_MEMORY))
    with warnings.catch_warnings():
        # torch recommends another export, which runs only in Python, and warns at every step.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(policy.requires_grad_(False), inputs, check_trace=False).cpu()
        script, graph = io.BytesIO(), io.BytesIO()
        torch.jit.save(traced, script, _extra_files={CONTRACT: contract})
        torch.onnx.export(
            traced,
            tuple(each.cpu() for each in inputs),
            graph,
            dynamo=False,
            opset_version=OPSET,
            input_names=[INPUT, *parts],
            output_names=[OUTPUT, *next_parts],
            dynamic_axes={
                INPUT: {0: "batch"},
                OUTPUT: {0: "batch"},
                **{name: {1: "batch"} for name in parts + next_parts},
            },
        )
        program = _without_call_stacks(script.getvalue())
        loaded = torch.jit.load(io.BytesIO(program))
    model = onnx.load_from_string(graph.getvalue())
    onnx.helper.set_model_props(model, {CONTRACT: contract})
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString(deterministic=True)
    evaluator = ReferenceEvaluator(content)

    def run_graph(*inputs: torch.Tensor) -> Any:
        values: Any = (each.numpy() for each in inputs)
        results: Any = evaluator.run(None, dict(zip([INPUT, *parts], values, strict=True)))
        actions, *memory = map(torch.from_numpy, results)
        return (actions, *memory) if memory else actions

    def memory(rows: int) -> tuple[torch.Tensor, ...]:
        return tuple(each.cpu() for each in policy.memory(rows))

    return [PolicyFile(POLICY, program, loaded, memory), PolicyFile(GRAPH, content, run_graph, memory)]


def _without_call_stacks(program: bytes) -> bytes:
    """Return a TorchScript file without call stacks, which contain folder names of this machine."""
    reader, slim = torch._C.PyTorchFileReader(io.BytesIO(program)), io.BytesIO()
    writer = torch._C.PyTorchFileWriter(slim)
    for name in reader.get_all_records():
        if not name.endswith(".debug_pkl") and name not in _ADDED_BY_TORCH:
            content = reader.get_record(name)
            writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    return slim.getvalue()


def live_actions(policy: ActingModule, recorded: Sequence[Groups], begins: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the actions of a policy in full precision; reduced precision on a GPU would hide errors of an export.

    Args:
        policy: The policy.
        recorded: Observations of each step, shape (n, ...) per group.
        begins: Where an episode begins at each step, shape (n,).

    Returns:
        Actions on the CPU, shape (steps, n, actions).

    Raises:
        UserError: If an action is not finite.
    """
    flags = {"cuda_matmul_allow_tf32": False, "cudnn_allow_tf32": False}
    with scoped_torch_backend_flags(**flags, cudnn_deterministic=False, cudnn_benchmark=False):
        actions = _played(policy, recorded, begins).cpu()
    if not actions.isfinite().all():
        raise UserError("some actions of the policy are NaN or infinite: export another checkpoint")
    return actions


def _played(policy: Any, observations: Iterable[Any], begins: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return the actions of a policy step by step, shape (steps, n, actions)."""
    act, actions = Acting(policy), []
    for seen, begin in zip(observations, begins, strict=True):
        act.forget(begin)
        actions.append(act(seen))
    return torch.stack(actions)


def largest_error(file: PolicyFile, observations: torch.Tensor, actions: torch.Tensor, begins: torch.Tensor) -> float:
    """Return the error of a file against the original policy, with all rows at once and with a single row.

    Args:
        file: The file.
        observations: Observations of the original policy, shape (steps, n, observations).
        actions: Its actions, shape (steps, n, actions).
        begins: Where an episode begins, shape (steps, n).

    Returns:
        The largest absolute difference, divided by the largest absolute action if that is above 1.
    """
    errors = [
        (_played(file, observations[:, rows], begins[:, rows]) - actions[:, rows]).abs().max()
        for rows in (slice(None), slice(1))  # a robot has a single row
    ]
    return float(torch.stack(errors).max() / actions.abs().max().clamp(min=1.0))
