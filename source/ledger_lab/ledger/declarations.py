"""Rows that declare a run or a cohort, before any cost arises."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import orjson

from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.row import Amount, Count, PathBelow, Positive, Row, RunId, Seed, Share, require_shallow

Timing = Literal["host", "events", "synchronized"]
"""How the time per phase is measured where work runs on a device: by the host when it launches the work; by the device
when it finishes the work; or by the host, which waits for the device at the end of each window."""


class _BeganFrom(TypedDict):
    """The checkpoint whose networks a run began with."""

    run_id: RunId
    task: str
    checkpoint: PathBelow
    """Path below that run's directory."""
    sha256: str
    env_steps: Count
    """Environment steps of the training of the checkpoint, including earlier runs that its run began from."""
    wall_s: Amount
    """Wall-clock time of the same trainings [s]."""
    usd: Amount | None
    """Cost of the same trainings [USD]; ``None`` if the price is unknown."""
    proof_panels: NotRequired[Count]
    """Panels of proofs of that run when this run was declared: what they left is this run's error budget.
    Missing in rows of earlier versions, whose runs always had a new error budget."""
    changed_code: NotRequired[dict[str, str]]
    """Observation and action code that has changed since the checkpoint was trained, as in :class:`PanelResult`."""


class _Recipe(TypedDict):
    """What a recipe file changed."""

    fields: dict[str, bool | int | float | str | list[int | float] | None]
    """Values by the names of a recipe's fields, which are the same for all libraries."""
    num_envs: Positive | None
    """Environments per process; ``None`` for those of the task."""
    overrides: list[str]
    """Overrides of the task."""


class _Git(TypedDict, total=False):
    """State of source code in version control."""

    commit: str | None
    changes_sha256: str | None
    """Hash of the uncommitted changes; ``None`` if there were none."""


class _Hardware(TypedDict, total=False):
    """The machine that a run was declared on."""

    cpu: str | None
    cpu_cores: Count | None
    cpu_quota: Annotated[float, msgspec.Meta(ge=1e-3, le=1e6)]
    """How many of the cores the control group allows at a time; absent without a limit."""
    memory_bytes: Count | None
    """Memory of the host, or the limit of the control group if lower; in rows of earlier versions, of the host."""
    torch_threads: Count | None
    """Threads of torch in the whole process; in rows of earlier versions."""
    act_threads: Count
    """Threads of torch in the forward passes of the rollout."""
    learn_threads: Count
    """Threads of torch in the gradient steps."""
    accelerator: str | None
    accelerator_memory_bytes: Count | None


class _Nested(TypedDict):
    """The types of the nested fields of a declaration."""

    price: Price
    recipe: _Recipe | None
    began_from: _BeganFrom | None
    git: _Git
    hardware: _Hardware


_NESTED = tuple(_Nested.__annotations__)
_SYMMETRIC_AGENT = "rsl_rl_with_symmetry_cfg_entry_point"
"""Agent configuration that declared mirrored samples before they were the default of LedgerLab's tasks."""


@dataclass(frozen=True, kw_only=True)
class RunDeclared(Row):
    """Declaration of a run, written before any cost arises."""

    run_id: RunId
    cohort: str | None
    task: str
    rl_library: str
    experiment: str
    overrides: list[str]
    """Hydra overrides of the command line, and those that LedgerLab added: the default physics engine of LedgerLab's
    tasks on a CPU, and a scaled learning rate. With the task, they define the configurations."""
    agent: str | None = None
    """Name under which the task registers the agent configuration; ``None`` for the library's default."""
    symmetry: bool | None = None
    """Whether the agent also learned from mirrored samples; ``None`` if unknown."""
    recipe: dict[str, Any] | None = None
    """What a recipe file changed: ``fields`` by their names, ``num_envs`` and ``overrides`` of the task. ``None``
    without such a file, and in rows of earlier versions."""
    seed: Seed
    device: str
    num_envs: Positive
    """Environments per process."""
    world_size: Positive
    """Number of processes."""
    machines: Positive | None = None
    """Number of machines; ``None`` if unknown."""
    max_iterations: Count
    horizon: Positive
    """Environment steps per iteration and environment."""
    epochs: Positive
    minibatches: Positive
    panel: str
    panel_id: str
    panel_fields: dict[str, Any]
    """The fields whose hash is the panel id. If two ids differ, these fields show why."""
    target_success: Share
    held_out_slots: Count
    """Held-out slots beside the training environments of each process (with replays); 0 for none."""
    eval_every: Positive | None
    """Iterations between two scored policies; ``None`` if scoring is continuous."""
    stop_at_target: bool
    error_budget: Share
    """Highest probability that the run proves a policy below the target. A run that began with a checkpoint has what
    the run of that checkpoint left."""
    verdict_rule: Positive = 1
    """Version of the rule of the verdict. By version 1, a proof has one panel; since version 2, a near miss is
    extended by further panels."""
    stop_on: list[str]
    """Names of the health events that end the run."""
    physics: str
    timing: Timing
    save_state_every: Count | None = None
    """Iterations between two saved states, 0 for none; ``None`` for the default of the program."""
    price: dict[str, Any]
    """The price entry at the start of the run."""
    config_sha256: dict[str, str]
    versions: dict[str, str]
    code_sha256: dict[str, str] = field(default_factory=dict)
    """Hashes of the source of LedgerLab and of the packages that the task uses; empty if unknown."""
    scoring_code: dict[str, str] | None = None
    """Hashes of the code that the policy and its scores depend on, by module: that of the panel, and classes of the
    agent that are not from a library. ``None`` if unknown."""
    began_from: dict[str, Any] | None = None
    """The checkpoint whose networks the run started with, and their cost; ``None`` if they were random."""
    git: dict[str, Any]
    """Commit and hash of the uncommitted changes of LedgerLab's source, or of the program; for information only."""
    hardware: dict[str, Any]
    command: list[str]
    request: dict[str, Any] | None = None
    """The request of the user, by flag, with the defaults of flags that were left out and the default physics engine of
    LedgerLab's tasks on a CPU; ``None`` if unknown. A resumed run takes its request from here."""

    def __post_init__(self) -> None:
        """Check the nested values, and read mirrored samples that were an agent configuration of their own.

        Raises:
            ValueError: If a nested value has the wrong type or range.
        """
        require_shallow(
            self.panel_fields, self.price, self.git, self.hardware, self.began_from, self.recipe, self.request
        )
        msgspec.convert({name: getattr(self, name) for name in _NESTED}, _Nested)
        if self.agent == _SYMMETRIC_AGENT and self.symmetry is None and self.task.startswith("LedgerLab-"):
            object.__setattr__(self, "agent", None)
            object.__setattr__(self, "symmetry", True)

    @property
    def configuration(self) -> str:
        """Hash of seed and configuration, whatever the code and the machine."""
        began_from = None if self.began_from is None else self.began_from.get("sha256")
        values = (
            self.task, self.rl_library, self.agent, bool(self.symmetry), self.overrides, self.recipe, self.seed,
            self.num_envs, self.world_size, self.horizon, self.epochs, self.minibatches, self.panel_id, self.physics,
            began_from,
        )  # fmt: skip
        return sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def training(self) -> str:
        """Hash of seed, configuration, code and machine: runs with the same hash made the same training."""
        values = (
            self.configuration, self.config_sha256, self.code_sha256, self.timing, self.device, self.machine,
            self.machines, self.price["instance"],
        )  # fmt: skip
        return sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def code(self) -> str | None:
        """Hash of the code that trains, and of the versions of its packages; ``None`` if they are unknown."""
        known = (self.code_sha256, self.versions)
        return sha256(orjson.dumps(known, option=orjson.OPT_SORT_KEYS)).hexdigest() if any(known) else None

    @property
    def is_recorded(self) -> bool:
        """Whether another trainer recorded the run: ``train.py`` hashes a configuration of the environment, too."""
        return "env" not in self.config_sha256

    @property
    def env_steps_per_iteration(self) -> int:
        """Environment steps of all processes in one iteration."""
        return self.num_envs * self.horizon * self.world_size

    @property
    def machine(self) -> str | None:
        """The accelerator, else the processor with the limit that the user set to its threads; ``None`` if unknown.

        The limit is that of the first attempt.
        """
        if accelerator := self.hardware.get("accelerator"):
            return str(accelerator)
        cpu, threads = self.hardware.get("cpu"), (self.request or {}).get("cpu_threads")
        return cpu if type(threads) is not int else f"{cpu or 'unknown processor'} (--cpu_threads {threads})"

    @property
    def devices(self) -> int:
        """Devices that the run pays for: one accelerator per process; without accelerators, its machines.

        A run on an unknown number of machines pays for at least one of them.
        """
        return self.world_size if self.device.startswith("cuda") else self.machines or 1


@dataclass(frozen=True, kw_only=True)
class CohortDeclared(Row):
    """Declared number of runs of a cohort, written before the first run, so that a missing run shows."""

    cohort: str
    size: Positive

    def __post_init__(self) -> None:
        """Check the size.

        Raises:
            ValueError: If the size is not a whole number of at least 1.
        """
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise ValueError(f"size must be a whole number of at least 1, not {self.size!r}")
