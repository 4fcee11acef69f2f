"""What ``study.py`` refuses before the first training of a study starts: sizes and machines that can't work."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.commands.study_clusters import StudyClusters
from ledger_lab.costs import load_price_book, resolve_price
from ledger_lab.errors import UserError
from ledger_lab.launch import requested_processes
from ledger_lab.recipes import RECIPES, PpoRecipe, dialect_of
from ledger_lab.recipes.libraries import LIBRARIES, require_library
from ledger_lab.runners import BatchPlan
from ledger_lab.runners.recipe_batch import recipe_batch
from ledger_lab.studies import Arm, Scaling, Size, Study
from ledger_lab.training.minibatches import cannot_keep, cannot_split, kept_minibatches, minibatch_size
from ledger_lab.training.request import TrainRequest


@dataclass(frozen=True)
class _Batch:
    """The batch arithmetic of an arm."""

    arm: Arm
    library: str
    plan: BatchPlan
    own: BatchPlan
    """Without the overrides of the arm."""
    recipe: PpoRecipe
    keeps_size: bool
    """Whether the minibatches keep their size."""

    def refusal(self, size: Size) -> str | None:
        """Return why the arm can't be trained in a size, as a clause; ``None`` if it can."""
        if wrong := cannot_split(size.num_envs, self.plan):
            return wrong
        if not self.keeps_size:
            return None
        kept, processes = minibatch_size(self.recipe.num_envs, self.own), size.shape.all_processes
        if kept_minibatches(size.num_envs, processes, self.plan, kept) is None:
            return cannot_keep(size.num_envs, processes, self.plan, kept)
        return None


def check_sizes(study: Study, extra: Sequence[str]) -> list[str]:
    """Refuse sizes whose batches do not split into minibatches.

    Args:
        study: The study.
        extra: Further arguments of all trainings.

    Returns:
        Lines about arms that could not be checked.

    Raises:
        UserError: If the minibatches of an arm don't fit; the message names the nearest numbers of environments that
            fit all arms. Or if ``train.py`` would refuse the arguments of an arm.
    """
    if study.scaling is None:
        return []
    found = {arm.cohort: _batch_of(arm, extra) for arm in study.arms}
    known = [batch for batch in found.values() if batch is not None]
    for batch in known:
        assert batch.arm.size is not None
        if wrong := batch.refusal(batch.arm.size):
            raise UserError(
                f"study {study.name}: [scaling] num_envs = {study.scaling.num_envs}: {batch.arm.cohort} "
                f"({batch.library}): {wrong}: {_way_out(study.scaling, known)}"
            )
    unknown = [cohort for cohort, batch in found.items() if batch is None]
    if not unknown:
        return []
    return [
        f"not checked before it starts: whether the batch of {', '.join(unknown)} splits into minibatches (LedgerLab "
        "has no recipe for this configuration); train.py checks it"
    ]


def _batch_of(arm: Arm, extra: Sequence[str]) -> _Batch | None:
    """Return the batch arithmetic of an arm; ``None`` if only the task and the library know it.

    Raises:
        UserError: If ``train.py`` would refuse the arguments.
    """
    request = _request_of(arm, extra)
    recipe, library = RECIPES.get(request.task), request.rl_library or next(iter(LIBRARIES))
    require_library(library)
    _require_rule_alone(arm, request, library)
    if recipe is None or request.agent is not None:
        return None
    plan, own = recipe_batch(library, recipe, request.overrides), recipe_batch(library, recipe)
    if plan is None or own is None:
        return None
    return _Batch(arm, library, plan, own, recipe, request.keep_minibatch_size)


def _require_rule_alone(arm: Arm, request: TrainRequest, library: str) -> None:
    """Refuse an override of what the rule for the batch sets.

    Raises:
        UserError: If there is one.
    """
    overridden = {override.partition("=")[0] for override in request.overrides}
    sets = {"minibatches": request.keep_minibatch_size, "learning_rate": request.scale_lr is not None}
    for key in (dialect_of(library).overrides[field] for field, is_set in sets.items() if is_set):
        if key in overridden:
            raise UserError(f'{arm.cohort}: batch = "{arm.batch}" sets {key}: leave out one of the two')


def _way_out(scaling: Scaling, batches: Sequence[_Batch]) -> str:
    """Return the nearest numbers of environments that fit all arms, in words."""

    def fits(tried: Scaling) -> bool:
        sizes = ((batch, batch.arm.size) for batch in batches)
        return not any(size is not None and batch.refusal(tried.size_of(size.shape)) for batch, size in sizes)

    if not (near := scaling.nearest(fits)):
        return "no other number of environments fits all arms: change sizes, batch or the minibatches"
    return f"use num_envs = {' or '.join(map(str, near))}, which fits all arms"


def check_machines(study: Study, clusters: StudyClusters, extra: Sequence[str]) -> None:
    """Refuse machines without a price: the trainings of a study of machines are compared by their costs.

    Args:
        study: The study.
        clusters: Its clusters.
        extra: Further arguments of all trainings.

    Raises:
        UserError: If a machine has no price, or ``train.py`` would refuse the arguments of an arm.
    """
    for arm in study.arms if study.machines else ():
        request, site = _request_of(arm, extra), clusters.of(arm).site
        instance = request.instance
        if (instance, request.usd_per_hour) == (None, None):
            instance = site.instance
        price = resolve_price(
            instance, request.usd_per_hour, load_price_book(request.prices), today=datetime.date.today()
        )
        if price.usd_per_hour is None:
            raise UserError(
                f"study {study.name}: [machine] {arm.machine}: {price.instance} has no price: set instance to an "
                "entry of config/prices.toml with a price, or add --usd_per_hour or --prices to arguments"
            )


def require_one_machine(study: Study) -> None:
    """Refuse sizes of several machines where the study trains on this machine.

    Raises:
        UserError: If a size has several machines.
    """
    if several := next((arm for arm in study.arms if (arm.nodes or 1) > 1), None):
        raise UserError(
            f"study {study.name}: size {several.size} needs {several.nodes} machines: add --on CLUSTER, or leave this "
            "size out"
        )


def _request_of(arm: Arm, extra: Sequence[str]) -> TrainRequest:
    """Return the request of an arm.

    Raises:
        UserError: If ``train.py`` would refuse the arguments.
    """
    _, arguments = requested_processes([*arm.arguments, *extra])
    return TrainRequest.parse(arguments)
