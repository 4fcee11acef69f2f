"""``python -m benchmarks off_policy_update``: the parts of a gradient step of SAC and TD3, and ways to make it faster.

The learner is the one that a training has, with a replay memory that is full of random transitions. Only the simulation
is missing.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError, first_line
from ledger_lab.meters import hardware_facts
from ledger_lab.recipes import CARTPOLE_SAC, CARTPOLE_TD3, OffPolicyRecipe
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.findings import write_findings
from ledger_lab.terminal.progress import Progress

if TYPE_CHECKING:
    import torch

PARTS = ("sampling", "normalization", "targets", "critics", "actor", "entropy", "soft update", "report")
"""Parts of a gradient step, in their order. ``normalization`` normalizes the observations, and updates their running
mean and variance. ``report`` computes the figures that the library writes to TensorBoard."""

PUBLISHED = {"actor": 0.44, "critics": 0.36, "targets": 0.15, "soft update": 0.042, "entropy": 0.008, "sampling": 0.002}
"""Shares of a gradient step of SAC in rlox, for the pendulum on an Apple CPU
(https://riserally.github.io/rlox/python/profiling-report). We have not repeated the measurement."""

_REFERENCE = "as it is"
LARGE: Mapping[str, Any] = {"hidden_dims": (256, 256), "batch_size": 1024, "replay_steps": 64}
"""Changes of the cart-pole's recipes for a quadruped: realistic sizes, which are not tuned to learn."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A learner of some size."""

    algorithm: str
    name: str
    observations: int
    actions: int
    recipe: OffPolicyRecipe


def cases(**changed: int) -> list[Case]:
    """Return the learners to measure: both algorithms, each with two sizes.

    Args:
        changed: Fields of all recipes to change.
    """
    found = []
    for recipe in (CARTPOLE_SAC, CARTPOLE_TD3):
        small = Case(algorithm=recipe.algorithm, name="cart-pole", observations=4, actions=1, recipe=recipe)
        larger = replace(recipe, **LARGE)
        found += [small, replace(small, name="flat ANYmal", observations=48, actions=12, recipe=larger)]
    return [replace(case, recipe=replace(case.recipe, **changed)) for case in found]  # type: ignore[arg-type]


def bench_off_policy_update(argv: Sequence[str]) -> int:
    """Time the parts of a gradient step, and whole updates with each change, beside updates as they are.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a number is not positive, or there is no such device.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks off_policy_update",
        description="Measure the parts of a gradient step of SAC and of TD3 (SKRL): sampling, targets, critics, actor, "
        "entropy and soft update. Then measure what changes of the update do: the soft update with "
        "torch._foreach_lerp_, torch.compile of the networks and of the whole update, and CUDA graphs (on a GPU). Each "
        "change takes turns with the update as it is, on the same batches. The first updates of both are also compared "
        "number by number. The sizes are those of the cart-pole's recipe, and those of a quadruped with 48 "
        "observations, 12 actions, two hidden layers of 256 and batches of 1024.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks off_policy_update --device cuda --json update.json",
    )
    parser.add_argument("--updates", type=int, default=10, help="Updates of a turn (default: 10).")
    parser.add_argument("--rounds", type=int, default=5, help="Turns of each variant (default: 5).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="Two turns of four updates, and nothing is compiled. This checks the benchmark, and says nothing about "
        "speed.",
    )
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if min(args.updates, args.rounds) < 1:
        raise UserError("--updates and --rounds must be at least 1")
    if args.quick:
        args.updates, args.rounds = 4, 2
    learners = cases(replay_steps=8) if args.quick else cases()

    import torch

    if args.device != "cpu" and not torch.cuda.is_available():
        raise UserError(f"--device {args.device}: this machine has no GPU that torch can use: leave it out")
    skipped = _skipped(args)
    console, figures, done = make_console(), [], 0
    with Progress(console, "updating", len(learners) * (1 + len(VARIANTS))) as progress:
        for case in learners:
            found: dict[str, Any] = {"algorithm": case.algorithm, "size": case.name, "parts_ms": _parts(case, args)}
            progress.advance(done := done + 1)
            found["variants"] = {}
            for variant in VARIANTS:
                reason = skipped.get(variant)
                measured = {"not_measured": reason} if reason else _compare(case, variant, args)
                found["variants"][variant] = measured
                progress.advance(done := done + 1)
            figures.append(found)
    console.print(_table_of_parts(figures), _table_of_variants(figures), sep="\n\n")
    write_findings(
        args.json,
        hardware=hardware_facts(),
        arguments={name: getattr(args, name) for name in ("device", "updates", "rounds", "quick")},
        load=os.getloadavg()[0],
        published=PUBLISHED,
        figures=figures,
    )
    return 0


class _Still:
    """An environment that is never stepped, for a learner whose memory is already full."""

    render_mode = None

    def __init__(self, case: Case, device: str) -> None:
        """Describe it."""
        import gymnasium as gym
        import numpy as np

        self.num_envs, self.device, self.unwrapped = case.recipe.num_envs, device, self
        self.single_observation_space = gym.spaces.Dict(
            {"policy": gym.spaces.Box(-np.inf, np.inf, (case.observations,))}
        )
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (case.actions,))
        self.cfg = SimpleNamespace(is_finite_horizon=False)
        self.sim = SimpleNamespace(step=lambda: None)

    def reset(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Learner:
    """The learner of a training."""

    agent: Any
    """The library's agent."""
    update: Callable[[], object]
    """Makes the gradient steps of one environment step."""

    @classmethod
    def of(cls, case: Case, folder: Path, device: str) -> Learner:
        """Build it as a training does, and fill its replay memory. The same arguments give the same learner.

        Args:
            case: Its algorithm and size.
            folder: An empty folder for the library's files.
            device: Its device.
        """
        import torch

        from ledger_lab.meters import PhaseClock
        from ledger_lab.recipes.libraries import agent_key, dialect_of
        from ledger_lab.runners.adapter import load_adapter

        torch.manual_seed(1)
        adapter = load_adapter("skrl", agent_key("skrl", case.algorithm))
        config = dialect_of("skrl", case.algorithm).translate(case.recipe)
        agent_cfg = adapter.prepare(config, device, seed=1, max_iterations=1)
        env: Any = _Still(case, device)
        record: Any = None  # nothing is saved
        trainer: Any = adapter.trainer(env, agent_cfg, folder, PhaseClock(time.perf_counter_ns()), record)
        agent = trainer._agent
        agent.enable_models_training_mode(True)
        for _ in range(case.recipe.replay_steps):
            seen, after = torch.randn(2, env.num_envs, case.observations, device=device)
            agent.memory.add_samples(
                observations=seen,
                states=None,
                actions=2.0 * torch.rand(env.num_envs, case.actions, device=device) - 1.0,
                rewards=torch.randn(env.num_envs, 1, device=device),
                next_observations=after,
                next_states=None,
                terminated=torch.rand(env.num_envs, 1, device=device) < 0.01,
            )
        return cls(agent, functools.partial(agent.update, timestep=0, timesteps=1))


class _Marks:
    """Divides the time of gradient steps into parts, by the callables that the library calls in turn."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        """Begin without a part."""
        self._synchronize = synchronize
        self._part, self._began = "report", 0.0
        self.spent_s = dict.fromkeys(PARTS, 0.0)

    def begin(self, part: str) -> None:
        """End a part, and begin the next one."""
        self._synchronize()
        now = time.perf_counter()
        self.spent_s[self._part] += now - self._began
        self._part, self._began = part, now

    def start(self) -> None:
        """Leave out the time until now."""
        self._synchronize()
        self._part, self._began = "report", time.perf_counter()

    @contextmanager
    def attached(self, agent: Any) -> Iterator[None]:  # noqa: ANN401 - the library's own type
        """Mark the parts of the updates inside the context."""
        from ledger_lab.runners.recorded_calls import replaced

        models = agent.models
        last_target = models.get("target_policy", agent.target_critic_2)
        has_entropy = hasattr(agent, "entropy_optimizer")
        with ExitStack() as stack:

            def mark(owner: object, name: str, *, before: Mapping[str, str], after: str | None = None) -> None:
                """Let a callable begin a part, depending on the part before, and perhaps another one at its end."""
                function = getattr(owner, name)

                def marked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
                    if (part := before.get(self._part)) is not None:
                        self.begin(part)
                    result = function(*args, **kwargs)
                    if after is not None:
                        self.begin(after)
                    return result

                stack.enter_context(replaced(owner, **{name: marked}))

            mark(agent.memory, "sample", before=dict.fromkeys(PARTS, "sampling"), after="normalization")
            mark(models.get("target_policy", agent.policy), "act", before={"normalization": "targets"})
            if "target_policy" in models:
                mark(agent.policy, "act", before={"report": "actor"})
            mark(agent.critic_1, "act", before={"targets": "critics"})
            # TD3 does not update its policy in every gradient step.
            mark(agent.critic_optimizer, "step", before={}, after="actor" if has_entropy else "report")
            mark(agent.policy_optimizer, "step", before={}, after="entropy" if has_entropy else "soft update")
            mark(agent.target_critic_1, "update_parameters", before={"entropy": "soft update"})
            mark(last_target, "update_parameters", before={}, after="report")
            yield


def _parts(case: Case, args: argparse.Namespace) -> dict[str, float]:
    """Return the median time of each part per gradient step [ms]."""
    import torch

    rounds: list[dict[str, float]] = []
    with _threads(case, args.device), tempfile.TemporaryDirectory() as folder:
        learner = Learner.of(case, Path(folder), args.device)
        _run(learner, args.updates, args.device)  # warms up
        synchronize = functools.partial(torch.cuda.synchronize, args.device) if args.device != "cpu" else _nothing
        for _ in range(args.rounds):
            marks = _Marks(synchronize)
            with marks.attached(learner.agent):
                marks.start()
                for _ in range(args.updates):
                    learner.update()
                marks.begin("report")
            steps = args.updates * case.recipe.updates_per_step
            rounds.append({part: 1e3 * spent_s / steps for part, spent_s in marks.spent_s.items()})
            learner.agent.tracking_data.clear()
    medians = {part: statistics.median(each[part] for each in rounds) for part in PARTS}
    return {part: spent_ms for part, spent_ms in medians.items() if spent_ms}


def _nothing() -> None:
    """Wait for nothing: on a CPU, work is finished when it is launched."""


def _compare(case: Case, variant: str, args: argparse.Namespace) -> dict[str, Any]:
    """Time updates with a change, in turns with updates as they are; compare the numbers after the first turn."""
    import torch

    change = VARIANTS[variant]
    with _threads(case, args.device), tempfile.TemporaryDirectory() as folder:
        learners: dict[str, Learner] = {}
        for name in (_REFERENCE, variant):
            path = Path(folder) / str(len(learners))
            path.mkdir()
            learners[name] = Learner.of(case, path, args.device)
        began = time.perf_counter()
        try:
            learners[variant] = change(learners[variant])
            torch.manual_seed(2)
            _run(learners[variant], args.updates, args.device)
        except Exception as error:  # compilers fail in many ways, and that is a finding
            return {"not_measured": f"{type(error).__name__}: {first_line(error)}"}
        first_s = time.perf_counter() - began
        torch.manual_seed(2)
        _run(learners[_REFERENCE], args.updates, args.device)
        difference = _largest_difference(*(each.agent for each in learners.values()))
        turns: dict[str, list[float]] = {name: [] for name in learners}
        for number in range(args.rounds):
            for name in learners if number % 2 else reversed(learners):
                turns[name].append(_run(learners[name], args.updates, args.device))
    steps = args.updates * case.recipe.updates_per_step
    ratios = sorted(changed / plain for plain, changed in zip(turns[_REFERENCE], turns[variant], strict=True))
    return {
        "first_turn_s": first_s,
        "as_it_is_ms": 1e3 * statistics.median(turns[_REFERENCE]) / steps,
        "changed_ms": 1e3 * statistics.median(turns[variant]) / steps,
        "ratio": [ratios[0], statistics.median(ratios), ratios[-1]],
        "largest_difference": difference,
    }


def _run(learner: Learner, updates: int, device: str) -> float:
    """Make updates; return how long they took [s]."""
    import torch

    began = time.perf_counter()
    for _ in range(updates):
        learner.update()
    if device != "cpu":
        torch.cuda.synchronize(device)
    spent_s = time.perf_counter() - began
    learner.agent.tracking_data.clear()
    return spent_s


def _largest_difference(one: Any, other: Any) -> float:  # noqa: ANN401 - the library's own type
    """Return the largest difference between two agents' parameters, relative to the largest parameter of a network."""
    found = []
    for mine, theirs in zip(one.models.values(), other.models.values(), strict=True):
        pairs = list(zip(mine.parameters(), theirs.parameters(), strict=True))
        largest = max(float(left.detach().abs().max()) for left, _ in pairs)
        found += [float((left - right).detach().abs().max()) / largest for left, right in pairs]
    return max(found)


@contextmanager
def _threads(case: Case, device: str) -> Iterator[None]:
    """Compute in as many threads as the gradient steps of a training."""
    from ledger_lab.runners.threads import threads_for, torch_threads

    recipe = case.recipe
    cores = len(os.sched_getaffinity(0))
    with torch_threads(threads_for(cores, recipe.hidden_dims, recipe.num_envs, recipe.batch_size, device).learn):
        yield


def _with_foreach(learner: Learner) -> Learner:
    """Let all parameters of a target network follow in one call."""
    for role, model in learner.agent.models.items():
        if role.startswith("target_"):
            model.update_parameters = functools.partial(_follow, list(model.parameters()))
    return learner


def _follow(own: list[torch.Tensor], network: torch.nn.Module, *, polyak: float) -> None:
    """Move parameters towards those of a network."""
    import torch

    with torch.no_grad():
        torch._foreach_lerp_(own, list(network.parameters()), polyak)


def _with_compiled_networks(learner: Learner, **options: str) -> Learner:
    """Compile the forward and backward pass of each network."""
    import torch

    for model in learner.agent.models.values():
        model.compute = torch.compile(model.compute, **options)
    return learner


def _with_compiled_update(learner: Learner) -> Learner:
    """Compile the library's update; draws, and figures for TensorBoard, divide what is compiled."""
    import torch

    agent = learner.agent
    for owner, name in ((agent.memory, "sample"), (agent, "track_data")):
        setattr(owner, name, torch.compiler.disable(getattr(owner, name)))
    update = torch.compile(type(agent).update.__get__(agent))
    return replace(learner, update=functools.partial(update, timestep=0, timesteps=1))


def _with_graphs(learner: Learner) -> Learner:
    """Replay the networks' passes as CUDA graphs, which torch's compiler captures."""
    import torch

    _with_compiled_networks(learner, mode="reduce-overhead")
    sample = learner.agent.memory.sample

    def begin(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        torch.compiler.cudagraph_mark_step_begin()  # results of the last gradient step are no longer needed
        return sample(*args, **kwargs)

    learner.agent.memory.sample = begin
    return learner


VARIANTS: Mapping[str, Callable[[Learner], Learner]] = {
    "torch._foreach_lerp_": _with_foreach,
    "torch.compile of the networks": _with_compiled_networks,
    "torch.compile of the update": _with_compiled_update,
    "CUDA graphs of the networks": _with_graphs,
}
"""Changes of an update."""


def _skipped(args: argparse.Namespace) -> dict[str, str]:
    """Return the variants that are not measured, with the reasons."""
    compiled = [name for name in VARIANTS if name != "torch._foreach_lerp_"]
    skipped = dict.fromkeys(compiled, "--quick compiles nothing") if args.quick else {}
    if args.device == "cpu":
        skipped["CUDA graphs of the networks"] = "the device is a CPU"
    return skipped


def _table_of_parts(figures: Sequence[dict[str, Any]]) -> Table:
    """Return the shares of the parts, beside the published ones."""
    table = Table("algorithm", "size", "gradient step", *PARTS, box=None, pad_edge=False)
    for found in figures:
        parts_ms, whole_ms = found["parts_ms"], sum(found["parts_ms"].values())
        shares = (f"{parts_ms[part] / whole_ms:.0%}" if part in parts_ms else "–" for part in PARTS)
        table.add_row(found["algorithm"], found["size"], f"{whole_ms:.2f} ms", *shares)
    published = (f"{PUBLISHED[part]:.0%}" if part in PUBLISHED else "–" for part in PARTS)
    table.add_row("sac", "published, rlox", "–", *published)
    return table


def _table_of_variants(figures: Sequence[dict[str, Any]]) -> Table:
    """Return the effect of each change."""
    titles = ("algorithm", "size", "change", "as it is", "changed", "ratio", "first turn", "largest difference")
    table = Table(*titles, box=None, pad_edge=False)
    for found, (variant, measured) in itertools.chain.from_iterable(
        zip(itertools.repeat(found), found["variants"].items(), strict=False) for found in figures
    ):
        row = [found["algorithm"], found["size"], variant]
        if "not_measured" in measured:
            table.add_row(*row, "–", "–", f"not measured: {measured['not_measured']}")
            continue
        least, middle, most = measured["ratio"]
        row += [f"{measured[name]:.2f} ms" for name in ("as_it_is_ms", "changed_ms")]
        row += [f"{middle:.2f} ({least:.2f} to {most:.2f})", f"{measured['first_turn_s']:.1f} s"]
        table.add_row(*row, f"{measured['largest_difference']:.1e}")
    return table
