"""What ``study.py`` refuses before the first training of a study starts: sizes and machines that can't work."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.errors import UserError
from ledger_lab.ledger.costs import load_price_book, resolve_price
from ledger_lab.ledger.libraries import PPO, dialect_of, require_library
from ledger_lab.studies.batches import batches_of
from ledger_lab.studies.declared import Arm, Scaling, Size, Study
from ledger_lab.studies.elsewhere import StudyClusters
from ledger_lab.studies.requests import request_of
from ledger_lab.training.minibatches import TaskBatch, cannot_keep, cannot_split, kept_minibatches, minibatch_size
from ledger_lab.training.recipe import library_of
from ledger_lab.training.request import TrainRequest


@dataclass(frozen=True)
class _SizedArm:
    """An arm with a size, and the batch of its trainings."""

    arm: Arm
    batch: TaskBatch
    keeps_size: bool
    """Whether the minibatches keep their size."""

    @property
    def has_own_batch(self) -> bool:
        """Whether the batch is as large as the task's own."""
        if self.arm.size is None:
            return False
        num_envs = self.arm.size.num_envs * self.arm.size.shape.all_processes
        return self.batch.plan.effective_batch(num_envs) == self.batch.own.effective_batch(self.batch.own_num_envs)

    def refusal(self, size: Size) -> str | None:
        """Return why the arm can't be trained in a size, as a clause; ``None`` if it can."""
        plan, processes = self.batch.plan, size.shape.all_processes
        if wrong := cannot_split(size.num_envs, plan):
            return wrong
        kept = minibatch_size(self.batch.own_num_envs, self.batch.own)
        if self.keeps_size and kept_minibatches(size.num_envs, processes, plan, kept) is None:
            return cannot_keep(size.num_envs, processes, plan, kept)
        return None


def check_sizes(study: Study, extra: Sequence[str]) -> list[str]:
    """Refuse sizes whose batches do not split into minibatches.

    Args:
        study: The study.
        extra: Further arguments of all trainings.

    Returns:
        Lines about arms that train the same, and about arms that could not be checked.

    Raises:
        UserError: If the minibatches of an arm don't fit; the message names the nearest numbers of environments that
            fit all arms. Or if ``train.py`` would refuse the arguments of an arm.
    """
    if study.scaling is None:
        return []
    requests = {arm: request_of(arm, extra) for arm in study.arms}
    for arm, request in requests.items():
        require_library(library_of(request))
        if request.algorithm not in (None, PPO):
            raise UserError(
                f"study {study.name}: {arm.cohort}: --algorithm {request.algorithm}: it has no batch that sizes of a "
                f"study could keep: compare sizes with {PPO}"
            )
        _require_rule_alone(arm, request)
    batches = batches_of(requests)
    sized = [_SizedArm(arm, batch, requests[arm].keep_minibatch_size) for arm, batch in batches.items()]
    for each in sized:
        if each.arm.size is not None and (wrong := each.refusal(each.arm.size)):
            raise UserError(
                f"study {study.name}: [scaling] num_envs = {study.scaling.num_envs}: {each.arm.cohort} "
                f"({each.batch.library}): {wrong}: {_way_out(study.scaling, sized)}"
            )
    lines = []
    if len(study.scaling.batch) > 1 and (same := [each.arm.cohort for each in sized if each.has_own_batch]):
        lines.append(f"{', '.join(same)}: the batch is the task's own, so all rules for the batch train the same")
    if unknown := [arm.cohort for arm in study.arms if arm not in batches]:
        told = f"train.py checks the minibatches of {', '.join(unknown)} at its start"
        lines.append(f"Isaac Lab is not installed here: {told}")
    return lines


def _require_rule_alone(arm: Arm, request: TrainRequest) -> None:
    """Refuse an override of what the rule for the batch sets.

    Raises:
        UserError: If there is one.
    """
    overridden = {override.partition("=")[0] for override in request.overrides}
    sets = {"minibatches": request.keep_minibatch_size, "learning_rate": request.scale_lr is not None}
    names = dialect_of(library_of(request)).overrides
    for key in (names[field] for field, is_set in sets.items() if is_set):
        if key in overridden:
            raise UserError(f'{arm.cohort}: batch = "{arm.batch}" sets {key}: leave out one of the two')


def _way_out(scaling: Scaling, arms: Sequence[_SizedArm]) -> str:
    """Return the nearest numbers of environments that fit all arms, in words."""

    def fits(tried: Scaling) -> bool:
        sizes = ((each, each.arm.size) for each in arms)
        return not any(size is not None and each.refusal(tried.size_of(size.shape)) for each, size in sizes)

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
        request, site = request_of(arm, extra), clusters.of(arm)[1]
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
