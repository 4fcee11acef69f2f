"""Refuses runs that a study would count, and that were trained with other arguments than its file now asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, RunDeclared
from ledger_lab.names import visible
from ledger_lab.reports.terminal.request import flag_names
from ledger_lab.studies.declared import Arm, Study
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.recipe import requested_dialect, requested_recipe, with_recipe
from ledger_lab.training.request import TrainRequest

_TRAIN_THE_SAME = {"seed", "cohort", "cohort_size", "instance", "usd_per_hour", "prices", "trust_run", "recipe"}
"""Flags of a whole run that do not change how it trains. What a recipe file sets is in the other fields."""


@dataclass(frozen=True)
class _Asked:
    """What an arm asks of its trainings."""

    request: TrainRequest
    processes: int | None
    """Processes on each machine; ``None`` if the study does not say."""
    nodes: int | None
    """Machines; ``None`` if the study does not say."""
    instance: str | None
    """Entry of the price file that the table ``[machine]`` names; ``None`` without such a table or entry."""


def request_of(arm: Arm, extra: Sequence[str]) -> TrainRequest:
    """Return the request of an arm, with what its recipe file sets.

    Args:
        arm: The arm.
        extra: Further arguments of all trainings.

    Raises:
        UserError: If ``train.py`` would refuse the arguments.
    """
    _, arguments = requested_processes([*arm.arguments, *extra])
    request = TrainRequest.parse(arguments)
    if request.recipe is None:
        return request
    dialect = requested_dialect(request)
    file = requested_recipe(request, dialect)
    return request if file is None else with_recipe(request, file, dialect)


def check_requests(study: Study, runs: Sequence[Run], extra: Sequence[str]) -> list[str]:
    """Refuse runs of a study that were trained with other arguments than the study now asks for.

    There are such runs if the study file was changed after its first trainings, or if another study of the same name
    has the same ledger. Prices may differ.

    Args:
        study: The study.
        runs: Its runs.
        extra: Further arguments of all trainings.

    Returns:
        A line about runs that could not be checked, if there are any.

    Raises:
        UserError: If a run differs, or ``train.py`` would refuse the arguments of its arm.
    """
    arms = {arm.cohort: arm for arm in study.arms}
    asked: dict[str, _Asked] = {}
    unchecked: list[str] = []
    begun: set[tuple[str | None, int]] = set()
    for declared in (run.declared for run in runs if run.declared.seed in study.seeds):
        if declared.cohort not in arms:
            continue
        is_repeated = (declared.cohort, declared.seed) in begun
        begun.add((declared.cohort, declared.seed))
        if (recorded := _recorded(declared)) is None:
            unchecked.append(declared.run_id)
            continue
        if declared.cohort not in asked:
            asked[declared.cohort] = _asked(study, arms[declared.cohort], extra)
        if found := _difference(declared, recorded, asked[declared.cohort], is_repeated=is_repeated):
            then, now = found
            raise UserError(
                f"study {study.name}: run {declared.run_id} of cohort {declared.cohort} was trained "
                f"{visible(then)}, but the study now asks for a training {visible(now)}: rename the study file, use "
                "another log root, or ask for the same as before (in the file and after --)"
            )
    if not unchecked:
        return []
    shown = ", ".join(unchecked[:3]) + (", …" if len(unchecked) > 3 else "")
    return [f"not checked whether they were trained as the study now asks: {shown} (they recorded no readable request)"]


def _recorded(declared: RunDeclared) -> TrainRequest | None:
    """Return the request that a run recorded; ``None`` if there is none that this version can read."""
    if declared.request is None:
        return None
    try:
        return TrainRequest.from_data(declared.request)
    except (TypeError, ValueError, UserError):
        return None


def _asked(study: Study, arm: Arm, extra: Sequence[str]) -> _Asked:
    """Return what an arm asks for."""
    processes, _ = requested_processes([*arm.arguments, *extra])
    return _Asked(
        request=request_of(arm, extra),
        processes=processes,
        nodes=arm.nodes,
        instance=study.machines[arm.machine].instance if arm.machine is not None else None,
    )


def _difference(
    declared: RunDeclared, recorded: TrainRequest, asked: _Asked, *, is_repeated: bool
) -> tuple[str, str] | None:
    """Return how a run was trained, and how it should be, in words; ``None`` if both are the same.

    Args:
        declared: Declaration of the run.
        recorded: Request that it recorded.
        asked: What the study asks of it.
        is_repeated: Whether it repeats an earlier run of its training, and so has only what that left of the limit.
    """
    request = asked.request
    for name in ("device", *flag_names(TrainRequest, each_attempt=False)):
        then, now = getattr(recorded, name), getattr(request, name)
        # What was not given has its default; the declaration has what that was.
        default = getattr(declared, name, None) if then is None else None
        if name in _TRAIN_THE_SAME or now == then or (now is not None and now == default):
            continue
        if now is None and name not in recorded.given:
            continue
        if name == "limit_s" and is_repeated and None not in (then, now) and then < now:
            continue
        return _flag(name, then if then is not None else default), _flag(name, now)
    before, after = _overrides(recorded), _overrides(request)
    if "physics" not in after and not any(word.startswith("physics=") for word in declared.command):
        before.pop("physics", None)  # train.py chose the engine, and recorded it as an override
    if names := [name for name in {**before, **after} if before.get(name) != after.get(name)]:
        return _override(names[0], before), _override(names[0], after)
    processes = (asked.processes or 1) * (asked.nodes or declared.machines or 1)
    if processes != declared.world_size and (asked.processes is not None or asked.nodes is not None):
        return _in_processes(declared.world_size), _in_processes(processes)
    if asked.instance is not None and recorded.instance != asked.instance:
        return _flag("instance", recorded.instance), _flag("instance", asked.instance)
    return None


def _in_processes(count: int) -> str:
    """Describe a number of processes."""
    return f"in {count} process{'' if count == 1 else 'es'}"


def _overrides(request: TrainRequest) -> dict[str, str]:
    """Return the values of overrides by their names; of several of one name, the last one counts."""
    pairs = (override.partition("=") for override in request.overrides)
    return {name.lstrip("+"): value for name, _, value in pairs}


def _override(name: str, values: Mapping[str, str]) -> str:
    """Describe an override."""
    return f"with {name}={values[name]}" if name in values else f"without {name}=…"


def _flag(name: str, value: object) -> str:
    """Describe a flag."""
    if value is None or value is False or value == ():
        return f"without --{name}"
    if value is True:
        return f"with --{name}"
    words = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"with --{name} {words}"
