"""``python -m ledger_lab.training.task_batches QUESTIONS ANSWERS``: the batches of trainings, from their settings.

``study.py`` and ``search.py`` work without torch and Isaac Lab. For what only a task's configuration tells, they ask
this program, which reads the configurations as a training does. No simulation starts.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.names import visible
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR
from ledger_lab.reports.terminal.script import run_script
from ledger_lab.training.minibatches import TaskBatch
from ledger_lab.training.runners import BatchPlan


def ask_task_batches(trainings: Sequence[Sequence[str]]) -> list[TaskBatch] | None:
    """Return the batches of trainings. A process of its own reads the configurations, which takes seconds.

    Args:
        trainings: Arguments of ``train.py`` for each training.

    Returns:
        One batch per training; ``None`` if Isaac Lab is not installed here.

    Raises:
        UserError: If a training would be refused, or a configuration can't be read.
    """
    if importlib.util.find_spec("isaaclab") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="ledger_lab_") as folder:
        questions, answers = Path(folder, "questions.json"), Path(folder, "answers.json")
        questions.write_bytes(msgspec.json.encode([list(training) for training in trainings]))
        command = [sys.executable, "-P", "-m", "ledger_lab.training.task_batches", str(questions), str(answers)]
        finished = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
        if finished.returncode == 0:
            return [_read(each) for each in msgspec.json.decode(answers.read_bytes())]
    (*_, last) = ["", *finished.stderr.strip().splitlines()]
    if finished.returncode == EXIT_USER_ERROR:
        raise UserError(last.removeprefix("error: "))
    raise UserError(
        f"the configuration of a task can't be read ({visible(last) or f'exit status {finished.returncode}'}): try one "
        "of the trainings with train.py, which tells more"
    )


def _read(answer: dict[str, Any]) -> TaskBatch:
    """Return a batch as the program has written it; msgspec can't, because a plan names a class of a wing."""
    return TaskBatch(**{**answer, "plan": BatchPlan(**answer["plan"]), "own": BatchPlan(**answer["own"])})


def tell_task_batches(argv: Sequence[str]) -> int:
    """Write the batches of trainings to a file.

    Args:
        argv: File with the arguments of ``train.py`` for each training, as JSON; file for the answer.

    Returns:
        The exit status.

    Raises:
        UserError: If a training would be refused.
    """
    questions, answers = (Path(name) for name in argv)
    trainings = msgspec.json.decode(questions.read_bytes(), type=list[list[str]])
    answers.write_bytes(msgspec.json.encode([_batch_of(training) for training in trainings]))
    return 0


def _batch_of(arguments: Sequence[str]) -> TaskBatch:
    """Return the batch of a training."""
    from ledger_lab.training.batch import own_batch, plan_batch
    from ledger_lab.training.plan import with_agent
    from ledger_lab.training.request import TrainRequest
    from ledger_lab.training.runners import load_adapter
    from ledger_lab.training.runners.command_line import parse
    from ledger_lab.training.runners.configs import require_values, resolve_configs

    request = parse(TrainRequest, arguments)
    library, request = with_agent(request)
    adapter = load_adapter(library, request.agent)
    _, agent_cfg = resolve_configs(request.task, library, list(request.overrides), request.agent)
    agent_cfg = adapter.prepare(agent_cfg, "cpu", seed=request.seed, max_iterations=request.max_iterations)
    require_values(agent_cfg, adapter)
    batch = plan_batch(adapter, agent_cfg)
    if batch.replay is not None:
        raise UserError("a replay memory has no batch that sizes of a study could keep: compare sizes with PPO")
    own, own_num_envs = own_batch(request, adapter)
    return TaskBatch(library=library, plan=batch, own=own, own_num_envs=own_num_envs)


if __name__ == "__main__":
    run_script(tell_task_batches)
