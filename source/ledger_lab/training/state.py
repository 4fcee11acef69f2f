"""Saves and restores the state that a training is resumed from: learner, simulation, judge and random streams."""

from __future__ import annotations

import io
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256, remove, whole_file
from ledger_lab.ledger import STATE_FILE, Row, StateRestored, StateSaved
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.panels.direct import plain_values
from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.panels.view import TrainingView
from ledger_lab.training.judge import Judge
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.request import STATE_AT_LATEST_S
from ledger_lab.training.resume import Resumption, require_whole
from ledger_lab.training.runners import Trainer
from ledger_lab.training.runners.process_group import ProcessGroup
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


_COUNTERS = ("common_step_counter", "_sim_step_counter", "episode_length_buf")
_MANAGERS = ("command", "event", "curriculum", "reward", "termination", "action", "observation")
_TERRAIN = ("terrain_levels", "terrain_types", "env_origins")


class SimulationState:
    """Saves and restores what outlasts an episode."""

    def __init__(self, env: ManagerBasedRLEnv, view: TrainingView | None) -> None:
        """Choose the values.

        Args:
            env: The environment.
            view: The learner's view of it; ``None`` if the learner sees all slots.
        """
        self._env, self._view = env, view
        base = env.unwrapped
        scene, terrain = base.scene, base.scene.terrain
        entities = [each for name in scene.keys() if (each := scene[name]) is not terrain]  # noqa: SIM118 - no dict
        self._closed = [base.sim, *entities]
        self._only = {
            type(base): frozenset(
                {*_COUNTERS, "scene", *(f"{name}_manager" for name in _MANAGERS), *plain_values(base)}
            ),
            type(scene): frozenset({"_terrain"}),
            type(terrain): frozenset(_TERRAIN),
        }

    def _walk(self) -> Iterator[tuple[str, Any, dict[Any, Any]]]:
        """Yield the objects of the simulation that hold such values, by their paths."""
        from ledger_lab.panels.memory import is_whole, walk

        return walk({"env": self._env.unwrapped}, closed=self._closed, only=self._only, is_leaf=is_whole)

    def take(self) -> dict[str, Any]:
        """Return the state between two steps, as plain values and tensors."""
        from ledger_lab.panels.memory import is_whole, saved

        places = {
            (path, name): saved(value)
            for path, _, held in self._walk()
            for name, value in held.items()
            if is_whole(value) and _outlasts(path, value)
        }
        places["env", "episode_length_buf"] = self._env.unwrapped.episode_length_buf.cpu().clone()
        return {"places": places, "streams": GlobalStreams().to_data()}

    def put(self, state: Mapping[str, Any]) -> str | None:
        """Restore a state into a freshly built simulation, and begin episodes without a curriculum update.

        Training slots keep the ages of their episodes, which spread time-outs over time. With all ages at zero, all
        episodes would time out together.

        Args:
            state: The result of :meth:`take` from a simulation that was built the same way.

        Returns:
            What could not be restored; ``None`` if everything was.
        """
        from ledger_lab.panels.memory import put_saved

        found = {path: (holder, held) for path, holder, held in self._walk()}
        missed = [
            (path, name)
            for (path, name), value in state["places"].items()
            if path not in found or not put_saved(*found[path], name, value)
        ]
        GlobalStreams.from_data(state["streams"]).restore()
        base = self._env.unwrapped
        seen = base if self._view is None else self._view
        ages = base.episode_length_buf[: seen.num_envs].clone()
        with torch.no_grad(), replaced(base.curriculum_manager, compute=lambda env_ids=None: None):
            (self._env if self._view is None else self._view).reset()
        seen.episode_length_buf = ages
        if not missed:
            return None
        path, name = missed[0]
        return f"{path}.{name} could not be restored" + (f", nor {len(missed) - 1} more" if missed[1:] else "")


def _outlasts(path: str, value: Any) -> bool:  # noqa: ANN401 - a leaf
    """Tell whether a value of a manager or the terrain outlasts an episode."""
    return not isinstance(value, torch.Tensor) or path.startswith(("env.curriculum_manager", "env.scene"))


class StateKeeper:
    """Keeps one state of a training on disk. A new state replaces the old state when it is complete."""

    def __init__(
        self,
        plan: TrainPlan,
        group: ProcessGroup,
        trainer: Trainer,
        simulation: SimulationState,
        judge: Judge | None,
        append: Callable[[Row], None],
        clock: PhaseClock,
    ) -> None:
        """Start with no state saved.

        Args:
            plan: The run.
            group: The processes of the run; all of them call every method.
            trainer: The library's training loop.
            simulation: Saves and restores the simulation.
            judge: Judges the policies; ``None`` if the run judges none.
            append: Writes a row.
            clock: The attempt's clock.

        Raises:
            UserError: If the replay memory is to be saved, and does not fit on the disk.
        """
        self._plan, self._path, self._group = plan, plan.run_dir / STATE_FILE, group
        self._next = plan.run_dir / f"journal-{plan.attempt + 1}-0.jsonl"
        self._every, self._at_latest_s = plan.batch.save_interval, STATE_AT_LATEST_S
        if plan.request.save_state_every is not None:
            self._every, self._at_latest_s = plan.request.save_state_every, math.inf
        self._replay = trainer.replay if plan.request.save_replay else None
        if self._replay is not None:
            self._require_disk_space(2 * self._replay.nbytes)  # while a new state replaces the last one
        self._trainer, self._simulation, self._judge = trainer, simulation, judge
        self._append, self._clock = append, clock
        self._last: int | None = None
        self._last_s = time.monotonic()
        self._insisted = False

    def _require_disk_space(self, needed: int) -> None:
        """Refuse a disk on which states with the replay memory will not fit."""
        free = shutil.disk_usage(self._path.parent).free + (self._path.stat().st_size if self._path.is_file() else 0)
        if needed > free:
            setting = self._plan.batch.replay and self._plan.batch.replay.settings["replay_steps"]
            raise UserError(
                f"--save_replay: the saved replay memory needs up to {needed / 1e9:.1f} GB of disk space, and "
                f"{free / 1e9:.1f} GB are free in {self._path.parent}: free some space, or start a run with a smaller "
                f"{setting}, or with --log_root on another disk"
            )

    @property
    def overdue(self) -> bool:
        """Whether the last state is too old. Only the first process decides, because the clocks differ."""
        return self._group.world.first and time.monotonic() - self._last_s > self._at_latest_s

    def insist(self) -> None:
        """Save after this iteration, even if no state is due."""
        self._insisted = True

    def after_iteration(self, iterations: int, env_steps: int) -> bool:
        """Save the state if it is due.

        Args:
            iterations: Iterations completed.
            env_steps: Environment steps of all processes so far.

        Returns:
            Whether the state was saved.

        Raises:
            RuntimeError: If a later attempt of the run has begun because this attempt seemed lost.
        """
        self._require_latest()
        due = self._every > 0 and (self._last is None or iterations - self._last >= self._every)
        if not due and not self._insisted:
            return False
        self._last, self._insisted = iterations, False
        with self._clock.window(Phase.CHECKPOINT):
            self._save(iterations, env_steps)
        self._last_s = time.monotonic()
        return True

    def _require_latest(self) -> None:
        """Raise an error if a later attempt of the run has begun; only the first process looks."""
        if self._group.world.first and self._next.exists():
            raise RuntimeError("this attempt was silent for so long that a later attempt has begun")

    def begin(self) -> list[str]:
        """Load the state on disk, or the networks of a checkpoint, if the run starts with one of them.

        Returns:
            What differs from an uninterrupted training, besides that episodes begin anew; empty for a new run.

        Raises:
            UserError: If the state can't be restored, or the networks don't fit.
        """
        if self._plan.resumed is not None:
            return self._restore(self._plan.resumed)
        if (beginning := self._plan.beginning) is not None:
            path = self._group.file(beginning.path)
            if file_sha256(path) != beginning.began_from["sha256"]:
                raise UserError(
                    f"--checkpoint {beginning.path} has changed since this run was declared: start it again"
                )
            self._trainer.begin(path)
        return []

    def _restore(self, resumed: Resumption) -> list[str]:
        """Restore the state on disk in all processes, and record that in the ledger.

        Args:
            resumed: The run, and its state.

        Returns:
            What differs from an uninterrupted training, besides that episodes begin anew.
        """
        group, saved = self._group, resumed.state
        if group.world.first:
            require_whole(self._path, saved.sha256)  # an attempt that seemed lost may have saved meanwhile
        state = torch.load(group.file(self._path), weights_only=True, map_location="cpu")
        mine = torch.load(io.BytesIO(state["processes"][group.world.rank].numpy().tobytes()), weights_only=True)
        if self._replay is not None:
            self._replay.restore(state["replay"])
        self._trainer.restore(state["learner"])
        troubles = [each for each in group.gather(self._simulation.put(mine["simulation"])) if each is not None]
        if self._judge is not None:
            self._judge.resume(mine["judge"], resumed.results)
        if self._trainer.replay is not None and self._replay is None:
            troubles.insert(0, "the replay memory is not saved, and refills")
        reasons = [*resumed.reasons, *troubles]
        if group.world.first:
            self._append(
                StateRestored(
                    sha256=saved.sha256,
                    attempt=resumed.saved_by,
                    saved_wall_ns=saved.wall_ns,
                    iteration=saved.iteration,
                    env_steps=saved.env_steps,
                    reasons=reasons,
                    wall_ns=self._clock.wall_ns(),
                )
            )
        self._last, self._last_s = saved.iteration, time.monotonic()
        return reasons

    def _save(self, iterations: int, env_steps: int) -> None:
        """Write the file. It holds the learner, which is equal in all processes, and the simulation of each process.

        The row is written before the file gets its name, so the ledger always knows the file of that name.
        """
        part = io.BytesIO()
        judged = None if self._judge is None else self._judge.state()
        torch.save({"simulation": self._simulation.take(), "judge": judged}, part)
        parts = self._group.gather_bytes(part.getvalue())
        learner = self._trainer.state()
        if not self._group.world.first:
            return
        processes = [torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in parts]
        state: dict[str, Any] = {"learner": learner, "processes": processes}
        if self._replay is not None:
            state["replay"] = self._replay.state()
        with whole_file(self._path) as unfinished:
            torch.save(state, unfinished)
            self._require_latest()  # this process may have been suspended while it wrote
            self._append(
                StateSaved(
                    sha256=file_sha256(unfinished),
                    size_bytes=unfinished.stat().st_size,
                    iteration=iterations,
                    env_steps=env_steps,
                    wall_ns=self._clock.wall_ns(),
                    replay_bytes=None if self._replay is None else self._replay.nbytes,
                )
            )


def remove_states(run_dir: Path) -> None:
    """Remove the state of a run that has ended for good, and incomplete states.

    Args:
        run_dir: The run's directory.
    """
    for state in run_dir.glob(f"{STATE_FILE}*"):
        remove(state)
