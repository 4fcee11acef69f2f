"""The ledger for a trainer of any framework: a context manager that writes the same rows as LedgerLab's own runs.

.. code-block:: python

    with record_run(task="CartPole-v1", library="my_trainer", panel=panel, target_success=0.9, seed=1, device="cpu",
                    num_envs=8, horizon=128, max_iterations=100) as run:
        for iteration in range(1, 101):
            with run.phase("simulate"):
                batch = rollout()
            with run.phase("learn"):
                loss = update(batch)
            run.iteration(iteration, env_steps=iteration * 8 * 128, figures={"value_loss": loss})
            saved = run.checkpoint(save(run.directory / f"{iteration}.pt"))
            run.judge(saved, take)
            if run.target_reached:
                break

The run's journal records how the block ended: normally, by an exception, Ctrl-C or SIGTERM. Needs no torch.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import operator
import os
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import (
    FIGURES,
    CheckpointSaved,
    Journal,
    Outcomes,
    PanelResult,
    RunDeclared,
    Status,
    declare_cohort,
    endings,
    require_cohort_name,
)
from ledger_lab.ledger.costs.prices import load_price_book, resolve_price
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.meters.host import git_facts, hardware_facts, package_versions
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.ledger.meters.process import python_started_ns
from ledger_lab.ledger.storage import require_storage
from ledger_lab.names import require_folder_name
from ledger_lab.panels import RULE_VERSION, PanelIdentity, VerdictRule
from ledger_lab.panels.verdict import NextPanel, Verdict
from ledger_lab.training.supervision.attempt import handling
from ledger_lab.training.writer import RunWriter, require_outcomes

__all__ = ["RecordedPanel", "RecordedRun", "record_run"]

type Exactness = Literal["bitwise", "statistical"]
"""Whether a repetition with the same policy gives the same episodes bit for bit."""


@dataclasses.dataclass(frozen=True)
class RecordedPanel:
    """A panel that a trainer of another framework scores: its seeds, and everything else that outcomes depend on."""

    name: str
    seeds: Sequence[int]
    """One per episode."""
    definition: Mapping[str, Any]
    """Everything else that outcomes depend on, as plain JSON values: the environment and its version, the horizon, the
    success criterion, packages. Scores are compared only if all of it is equal."""

    def __post_init__(self) -> None:
        """Refuse repeated seeds, and a definition that can't be hashed.

        Raises:
            ValueError: If there is no seed, a seed occurs twice, or the definition holds a number that is not finite.
            TypeError: If the definition holds something that is not a JSON value.
        """
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError("a panel needs seeds, each of them once")
        canonical_json(self.fields)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields that the id is the hash of."""
        return {**self.definition, "seeds": list(self.seeds)}

    @property
    def id(self) -> str:
        """Identity of the panel, a hash."""
        return PanelIdentity(self.fields).id

    def with_fresh_seeds(self, episodes: int, used: Set[int] = frozenset()) -> RecordedPanel:
        """Return the same panel with unseen seeds, drawn from the system's randomness.

        Args:
            episodes: Number of seeds, at least 1.
            used: Seeds that must not occur, besides those of this panel.

        Raises:
            ValueError: If ``episodes`` is less than 1.
        """
        taken, seeds = {*self.seeds, *used}, set[int]()
        while len(seeds) < episodes:
            seed = secrets.randbelow(2**31)
            if seed not in taken:
                seeds.add(seed)
        return dataclasses.replace(self, seeds=sorted(seeds), definition={**self.definition, "fresh_seeds": True})


@contextmanager
def record_run(
    *,
    task: str,
    library: str,
    panel: RecordedPanel,
    target_success: float,
    seed: int,
    device: str,
    num_envs: int,
    horizon: int,
    max_iterations: int,
    epochs: int = 1,
    minibatches: int = 1,
    physics: str = "unknown",
    experiment: str | None = None,
    cohort: str | None = None,
    cohort_size: int | None = None,
    instance: str | None = None,
    usd_per_hour: float | None = None,
    prices: Path | None = None,
    packages: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    peak_gpu_memory_bytes: Callable[[], int | None] = lambda: None,
    log_root: Path = Path("logs"),
    since_process_start: bool = True,
) -> Iterator[RecordedRun]:
    """Declare a run of one process, and record it inside a ``with`` block.

    The end of the block is the end of the run. An exception that ends it is recorded, and passed on.

    Args:
        task: Name of the task.
        library: Name of the learning framework; also names a folder.
        panel: The panel of held-out episodes that policies are checked on.
        target_success: Success rate to prove, in (0, 1].
        seed: Training seed.
        device: Device to train on.
        num_envs: Environments in parallel.
        horizon: Environment steps per iteration and environment.
        max_iterations: Largest number of iterations.
        epochs: Passes over each batch.
        minibatches: Minibatches per pass.
        physics: Physics engine.
        experiment: Name of a folder; made from the task's name by default.
        cohort: Name of the cohort that the run is reported with.
        cohort_size: Number of runs that the cohort will have, so that a missing run shows.
        instance: Entry of the price book; ``local`` by default.
        usd_per_hour: Price to use in place of the entry's own [USD/h].
        prices: Price file whose entries take precedence over ``config/prices.toml``.
        packages: Distributions whose versions are recorded, besides LedgerLab's own list.
        config: Hyperparameters, as plain JSON values; their hash is recorded.
        peak_gpu_memory_bytes: Called at the end; returns the peak if an accelerator was used.
        log_root: Root of the ledger.
        since_process_start: Whether the time since Python started counts as the run's start-up. Pass ``False`` if the
            program did something else before, such as another run.

    Yields:
        The run.

    Raises:
        UserError: If a name can't name a folder, the price is unknown, the panel has too few episodes to prove the
            target, the cohort was declared with another size, or the directory can't hold a ledger.
        OSError: If the end could not be written, and no other exception is under way.
    """
    started_ns = python_started_ns() if since_process_start else time.perf_counter_ns()
    experiment = experiment or re.sub(r"[^\w.+-]+", "_", task).lower()
    require_folder_name("library", library)
    require_folder_name("experiment", experiment)
    try:
        rule = VerdictRule(target_success)
    except ValueError as error:
        raise UserError(f"target_success {target_success}: must be above 0 and at most 1") from error
    if not rule.is_decidable(len(panel.seeds)):
        raise UserError(
            f"panel {panel.name}: {len(panel.seeds)} episodes are too few to prove a success of {target_success:g}: "
            "give it more seeds, or a lower target"
        )
    if cohort is not None:
        require_cohort_name(cohort)
    elif cohort_size is not None:
        raise UserError(f"cohort_size {cohort_size}: name the cohort")
    price = resolve_price(instance, usd_per_hour, load_price_book(prices), today=datetime.date.today())
    if cohort is not None and cohort_size is not None:
        declare_cohort(log_root, cohort, cohort_size)
    program = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path()
    run_id = secrets.token_hex(8)
    declared = RunDeclared(
        run_id=run_id,
        cohort=cohort,
        task=task,
        rl_library=library,
        experiment=experiment,
        overrides=[],
        seed=seed,
        device=device,
        num_envs=num_envs,
        world_size=1,
        machines=1,
        max_iterations=max_iterations,
        horizon=horizon,
        epochs=epochs,
        minibatches=minibatches,
        panel=panel.name,
        panel_id=panel.id,
        panel_fields=panel.fields,
        target_success=target_success,
        held_out_slots=0,
        eval_every=None,
        stop_at_target=True,
        error_budget=rule.error_budget,
        verdict_rule=RULE_VERSION,
        stop_on=[],
        physics=physics,
        timing="host",
        price=price.to_dict(),
        config_sha256={} if config is None else {"agent": hashlib.sha256(canonical_json(dict(config))).hexdigest()},
        versions={**package_versions(), **package_versions(tuple(packages))},
        git=git_facts(program.resolve().parent if program.is_file() else Path.cwd()),
        hardware={**hardware_facts(), "accelerator": None},
        command=list(sys.argv),
    )
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    directory = log_root / library / experiment / f"{stamp}_{run_id}"
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"cannot write to log_root {log_root}: {error.strerror}") from error
    require_storage(directory, f"log_root {log_root}")
    journal = Journal(directory.resolve() / "journal-1-0.jsonl")
    writer = RunWriter(
        journal.append,
        PhaseClock(started_ns),
        run_id=run_id,
        directory=directory,
        device=device,
        peak_gpu_memory_bytes=peak_gpu_memory_bytes,
    )
    writer.declare(declared)
    writer.start()
    writer.beat()
    run, pid = RecordedRun(writer, run_id, panel, rule), os.getpid()
    cause: BaseException | None = None
    unhandled = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # a handler that the user has set stays
    with _handling([signal.SIGTERM] if unhandled else [], _raise_terminated):
        try:
            yield run
        except BaseException as raised:
            cause = None if isinstance(raised, SystemExit) and raised.code in (None, 0) else raised
            raise
        finally:
            if os.getpid() == pid:  # a forked child that leaves the block does not end the run
                with _handling([signal.SIGINT, signal.SIGTERM], lambda signum, frame: None):
                    try:
                        writer.iteration = None
                        well = Status.TARGET_REACHED if run.target_reached else Status.COMPLETED
                        status = well if cause is None else endings.status_of(cause)
                        journal.append(writer.end(status, cause, peak_gpu_memory_bytes))
                        journal.close()
                    except OSError as trouble:
                        if cause is None:
                            raise
                        cause.add_note(f"and the end could not be written into the ledger: {trouble}")


@contextmanager
def _handling(signals: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals within the context, if this is the main thread: Python sets handlers there only."""
    main = threading.current_thread() is threading.main_thread()
    with handling(signals if main else (), handler):
        yield


class Terminated(endings.Terminated, SystemExit):
    """The system asked the process to end (SIGTERM); if not caught, it ends the program like a SystemExit."""


class RecordedRun:
    """A run that a trainer records into its journal. :func:`record_run` makes one."""

    def __init__(self, writer: RunWriter, run_id: str, panel: RecordedPanel, rule: VerdictRule) -> None:
        """Take the run's writer, and what it declares."""
        self.run_id = run_id
        self.directory = writer.directory
        """The run's directory; save checkpoints inside it."""
        self.target_reached = False
        """Whether a proof has passed."""
        self._writer, self._clock, self._panel = writer, writer.clock, panel
        self._verdict = Verdict(rule)
        self._saved: set[tuple[str, str]] = set()
        """Checkpoints that the run recorded: paths and hashes."""
        self._seen: set[int] = set()
        """Seeds that were drawn for proofs."""
        self._drawn: tuple[str, RecordedPanel] | None = None
        """The panel that was drawn and is not recorded yet, after the hash of its checkpoint."""

    def phase(self, phase: Phase | str) -> AbstractContextManager[None]:
        """Count the time inside a ``with`` block for a phase. In nested blocks, the inner phase gets the time.

        Args:
            phase: One of :class:`~ledger_lab.ledger.meters.phases.Phase`, or its name.

        Raises:
            ValueError: If there is no such phase.
        """
        self._begin()
        return self._clock.window(Phase(phase))

    def instrument(self, owner: object, method: str, phase: Phase | str) -> None:
        """Count the time of one object's method for a phase from now on, where a ``with`` block is not possible.

        Args:
            owner: The object.
            method: Name of the method, which is replaced on this object.
            phase: As for :meth:`phase`.

        Raises:
            ValueError: If there is no such phase.
            AttributeError: If there is no such method.
        """
        self._begin()
        self._clock.instrument(owner, method, Phase(phase))

    def iteration(self, iteration: int, *, env_steps: int, figures: Mapping[str, float] | None = None) -> None:
        """Record the end of an iteration, and its time per phase. This is also the run's heartbeat.

        Args:
            iteration: Iterations completed, from 1.
            env_steps: Environment steps of training so far.
            figures: Figures of the training, by the names of :data:`ledger_lab.ledger.FIGURES`.

        Raises:
            UserError: If a figure has another name. Nothing is recorded then.
        """
        counts = operator.index(iteration), operator.index(env_steps)
        numbers = {name: float(value) for name, value in (figures or {}).items()}
        for name in numbers.keys() - set(FIGURES):
            raise UserError(f"unknown figure {name!r}; {nearest(name, FIGURES)}")
        self._begin()
        self._writer.iteration, self._writer.env_steps = counts
        self._writer.beat(numbers)

    def checkpoint(self, path: str | Path) -> CheckpointSaved:
        """Record that a policy is on disk.

        Args:
            path: Its file, inside :attr:`directory`.

        Returns:
            The row, to pass to :meth:`judge`.

        Raises:
            UserError: If the file doesn't exist, lies outside the directory, or held another policy before.
        """
        with self._clock.window(Phase.CHECKPOINT):
            saved = self._writer.checkpoint(path, self._writer.iteration or 0, self._writer.env_steps)
        self._saved.add((saved.path, saved.sha256))
        return saved

    def judge(
        self,
        saved: CheckpointSaved,
        take: Callable[[Sequence[int]], Outcomes],
        episodes: int | None = None,
        exactness: Exactness = "statistical",
    ) -> list[PanelResult]:
        """Check a checkpoint, and put it to the proof on fresh seeds if it passes. A near miss is extended.

        All of it counts for the phase ``evaluate``. Afterwards, :attr:`target_reached` says whether to go on training.
        The number of successes that a proof needs depends on the results of all proofs, so that the probability of a
        wrong claim stays within the run's error budget, however many panels there are and however large they are.

        Args:
            saved: The checkpoint, as :meth:`checkpoint` returned it.
            take: Plays one episode for each of some seeds, and returns their outcomes.
            episodes: Episodes of each panel of the proof; as many as the run's panel has by default.
            exactness: Whether a repetition with the same policy gives the same episodes bit for bit.

        Returns:
            The rows: the check, then each panel of the proof.

        Raises:
            UserError: If the run did not record the checkpoint, the outcomes are not those of the seeds, or fresh seeds
                were drawn for another checkpoint and ``take`` failed. Otherwise, a panel could be selected by its
                outcomes.
        """
        if (saved.path, saved.sha256) not in self._saved:
            raise UserError(
                f"checkpoint {saved.path}: run {self.run_id} did not record it: score a checkpoint that its own "
                "checkpoint() returned"
            )
        if self._drawn is not None and self._drawn[0] != saved.sha256:
            raise UserError(
                f"checkpoint {saved.path}: fresh seeds were drawn for checkpoint {self._drawn[0][:12]}…, and their "
                "outcomes are not recorded: judge that checkpoint again first"
            )
        count = len(self._panel.seeds) if episodes is None else episodes
        with self.phase(Phase.EVALUATE):
            check = self._verdict.check(len(self._panel.seeds))
            results = [self._score(saved, self._panel, take(self._panel.seeds), check, exactness)]
            while (what := self._verdict.after(results[-1], count)) is not None:
                if self._drawn is None:
                    fresh = self._panel.with_fresh_seeds(count, self._seen)
                    self._seen.update(fresh.seeds)
                    self._drawn = (saved.sha256, fresh)
                fresh = self._drawn[1]
                if len(fresh.seeds) != count:
                    what = self._verdict.proof(saved.sha256, len(fresh.seeds))
                results.append(self._score(saved, fresh, take(fresh.seeds), what, exactness))
        return results

    def _score(
        self,
        saved: CheckpointSaved,
        panel: RecordedPanel,
        outcomes: Outcomes,
        what: NextPanel,
        exactness: Exactness,
    ) -> PanelResult:
        """Write the row of a score. A proof also counts if its row can't be written yet."""
        require_outcomes(panel.name, panel.seeds, outcomes)
        if what.purpose == "proof":
            place = (what.proof, what.extension)
            self._verdict.count(place, saved.sha256, outcomes.successes, outcomes.episodes)
            self._drawn = None
            self.target_reached = self.target_reached or self._verdict.proven
        return self._writer.result(
            saved,
            outcomes,
            what,
            panel=panel.name,
            panel_id=panel.id,
            seeds=panel.seeds,
            exactness=exactness,
        )

    def _begin(self) -> None:
        """End the start-up at the first sign of training."""
        if self._clock.base is Phase.STARTUP:
            self._clock.set_base(Phase.UNATTRIBUTED)


def _raise_terminated(signum: int, frame: FrameType | None) -> None:
    """Turn SIGTERM into an exception, so that the run's end is written on the way out."""
    raise Terminated(128 + signum)
