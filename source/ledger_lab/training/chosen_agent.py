"""Chooses the library and the agent configuration of a training from its flags."""

from __future__ import annotations

from dataclasses import replace

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import PPO, agent_key, algorithm_of, library_with
from ledger_lab.tasks.registry import require_task, require_task_default
from ledger_lab.training.request import TrainRequest


def with_agent(request: TrainRequest) -> tuple[str, TrainRequest]:
    """Return the library of a request, and the request with the agent configuration that its algorithm selects.

    Args:
        request: The request.

    Returns:
        The library's name, and a request whose ``agent`` is ``None`` for the library's usual configuration.

    Raises:
        UserError: If the task or the library is unknown, one of them does not have the algorithm, or the request names
            a configuration of another algorithm.
    """
    library = request.rl_library or require_task_default(request.task)
    if (algorithm := request.algorithm) is None:
        require_task(request.task, library, request.agent)
        return library, request
    library = request.rl_library or library_with(algorithm, library)
    registered, key = require_task(request.task, library), agent_key(library, algorithm)
    if request.agent is not None and algorithm_of(library, request.agent) != algorithm:
        raise UserError(
            f"--agent {request.agent}: it is no configuration of --algorithm {algorithm}: leave one of them out"
        )
    if request.agent is None and key not in registered:
        raise UserError(
            f"--algorithm {algorithm}: task {request.task} has no configuration for it: register one as {key}, or use "
            "another algorithm or task"
        )
    agent = request.agent or (None if algorithm == PPO else key)
    require_task(request.task, library, agent)
    return library, replace(request, agent=agent)
