"""Sizes and machines that nobody trained, predicted from the laws of rate and samples.

``time = start-up + samples(batch) / rate(processes) × (1 + scoring per training)``. A prediction never leaves the
range of the laws, one machine, and one kind of accelerator.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import f as f_distribution

from ledger_lab.ledger.costs import FEWEST_RUNS, Price, billable_usd, billed_instances, cost_draws
from ledger_lab.studies.recommend.estimates import FREE, Estimate, Z, samples_to_target
from ledger_lab.studies.recommend.options import Basis, Configuration, Option, configuration_of
from ledger_lab.studies.scaling import (
    BatchFit,
    Figure,
    Kind,
    RateFit,
    ScaledRun,
    ScalingPoint,
    ScalingStudy,
    find_studies,
)
from ledger_lab.studies.scaling.table import size_name

_DRAWS = 4000
_DIFFER = 0.05
"""Largest p-value at which two machines differ in speed."""


def predicted_options(runs: Sequence[ScaledRun], book: Mapping[str, Price], confidence: float = 0.95) -> list[Option]:
    """Return an option for each size that the laws predict and nobody trained.

    Sizes are the measured numbers of processes, and the powers of two between them. For each
    size, the machine is the cheapest one that has an accelerator for every process, among the machines of the runs and
    the entries of the price book with the same accelerator. If the size was measured there, nothing is predicted. Spot
    machines are left out, because the laws do not contain what preemptions add.

    The rate depends on the hardware, and not on who rents it out. So runs of several machines are taken together,
    unless something speaks against it, see :func:`_are_alike`.

    Args:
        runs: Runs with the same target on the same panel.
        book: The price book.
        confidence: Confidence of the intervals, in (0, 1).
    """
    measured = {configuration_of(each) for each in runs}
    by_id = {each.run_id: each for each in runs}
    found: dict[Configuration, Option] = {}
    for study, others in _studies(runs, by_id, book):
        own = [by_id[run.run_id] for run in study.runs]
        machines = {each.price.instance for each in own}
        for processes in _sizes(study):
            num_envs, price = _num_envs(study, processes), _cheapest(own, processes, others)
            if num_envs is None or price is None:
                continue
            configuration = replace(
                configuration_of(own[0]),
                instance=price.instance, processes=processes, machines=1, num_envs=num_envs,
            )  # fmt: skip
            if configuration in measured or configuration in found:
                continue
            elsewhere = price.instance not in machines
            option = _predicted(study, configuration, price, confidence, elsewhere=elsewhere)
            if option is not None:
                found[configuration] = option
    return list(found.values())


def _studies(
    runs: Sequence[ScaledRun], by_id: Mapping[str, ScaledRun], book: Mapping[str, Price]
) -> Iterator[tuple[ScalingStudy, Mapping[str, Price]]]:
    """Yield the scaling studies of all machines together, or else those of each machine.

    Yields:
        A study, and the entries of the price book that it may tell something about.
    """
    for study in find_studies([replace(each, instance="") for each in runs]):
        own = [by_id[run.run_id] for run in study.runs]
        if _are_alike(own):
            yield study, book
            continue
        for instance in sorted({each.price.instance for each in own}):
            alone = find_studies([each for each in own if each.price.instance == instance])
            yield from ((each, {}) for each in alone)


def _are_alike(runs: Sequence[ScaledRun]) -> bool:
    """Tell whether one law of the rate may describe runs of several machines with the same accelerator or processor.

    It may not if a size is significantly faster on one of them (F test of the logarithms of the rates), or if this
    cannot be tested, because no size was repeated. On a CPU, processes share the cores of their machine. So how the
    rate grows there belongs to the machine, unless each machine stands for one number of processes.
    """
    instances = {each.price.instance for each in runs}
    if len(instances) == 1:
        return True
    processes: dict[str, set[int]] = {}
    rates: dict[tuple[int, int], dict[str, list[float]]] = {}
    for each in runs:
        run, instance = each, each.price.instance
        processes.setdefault(instance, set()).add(run.processes)
        if run.identity.rate:
            rates.setdefault((run.processes, run.num_envs), {}).setdefault(instance, []).append(run.identity.rate)
    if runs[0].device == "cpu" and any(len(own) > 1 for own in processes.values()):
        return False
    shared = [[np.log(own) for own in by_instance.values()] for by_instance in rates.values() if len(by_instance) > 1]
    if not shared:
        return True
    means = [float(np.mean(np.concatenate(size))) for size in shared]
    between = sum(
        len(own) * (float(np.mean(own)) - mean) ** 2 for size, mean in zip(shared, means, strict=True) for own in size
    )
    within = sum(float(np.sum((own - np.mean(own)) ** 2)) for size in shared for own in size)
    groups = sum(map(len, shared))
    freedom = sum(len(own) for size in shared for own in size) - groups
    if not freedom or not within:
        return False
    ratio = (between / (groups - len(shared))) / (within / freedom)
    return bool(f_distribution.sf(ratio, groups - len(shared), freedom) >= _DIFFER)


def _sizes(study: ScalingStudy) -> Iterator[int]:
    """Yield the numbers of processes to predict: measured ones, too, for machines on which they were not measured."""
    if study.kind is Kind.OTHER or any((point.machines or 1) > 1 for point in study.points):
        return
    measured = {point.processes for point in study.points}
    powers = {2**power for power in range(max(measured).bit_length())}
    yield from sorted(measured | {each for each in powers if min(measured) <= each <= max(measured)})


def _num_envs(study: ScalingStudy, processes: int) -> int | None:
    """Return the environments of each process; ``None`` if they can't be shared equally."""
    first = study.points[0]
    if study.kind is Kind.WEAK:
        return first.num_envs
    each, rest = divmod(first.num_envs * first.processes, processes)
    return None if rest or not each or each * study.runs[0].horizon < (study.runs[0].minibatches or 1) else each


def _cheapest(runs: Sequence[ScaledRun], processes: int, book: Mapping[str, Price]) -> Price | None:
    """Return the cheapest machine that can hold so many processes; ``None`` if there is none."""
    own = {each.price.instance: each.price for each in runs}
    used: dict[str, int] = {}
    for each in runs:
        used[each.price.instance] = max(used.get(each.price.instance, 0), each.processes)
    accelerators = {price.accelerator for price in own.values()} - {None}
    found = [
        price
        for name, price in own.items()
        if price.market != "spot" and max(price.accelerators, used[name]) >= processes
    ]
    found += [
        price
        for name, price in book.items()
        if price.accelerator in accelerators
        and name not in own
        and price.accelerators >= processes
        and price.market not in ("spot", "unpriced")
    ]
    devices = 1 if runs[0].device == "cpu" else processes

    def usd_per_hour(price: Price) -> float:
        return math.inf if price.usd_per_hour is None else price.usd_per_hour * billed_instances(devices, 1, price)

    return min(found, key=usd_per_hour, default=None)


def _predicted(
    study: ScalingStudy, configuration: Configuration, price: Price, confidence: float, *, elsewhere: bool
) -> Option | None:
    """Return the prediction for one size on one machine.

    Args:
        study: The runs and their laws.
        configuration: The size and the machine.
        price: Price of the machine.
        confidence: Confidence of the intervals, in (0, 1).
        elsewhere: Whether no run of the study was trained on this machine.

    Returns:
        The prediction; ``None`` if a law that it needs is missing, or there are fewer runs than
        :data:`~ledger_lab.ledger.costs.FEWEST_RUNS`.
    """
    runs = study.runs
    reached = [run for run in runs if run.reached]
    law = study.rate_law
    if not isinstance(law, RateFit) or not law.fits or not reached or len(runs) < FEWEST_RUNS:
        return None
    try:
        rate = law.at(configuration.processes)
        samples, samples_deviation, behind = _samples(study, configuration)
    except ValueError:
        return None
    if (rate_deviation := _deviation(rate)) is None:
        return None
    training_s = samples / rate.value * (1 + _median(run.scoring_s / run.identity.training_s for run in reached))
    start_up_s = _median(run.start_up_s for run in reached)
    deviation = math.hypot(rate_deviation, samples_deviation)
    reach = statistics.NormalDist().inv_cdf((1 + confidence) / 2) * deviation
    low, high = (start_up_s + training_s * math.exp(sign * reach) for sign in (-1, 1))
    time = Estimate(value=start_up_s + training_s, interval=(low, high), run_spread=_spread(study))
    cost = _cost(time, study, price, configuration, confidence)
    notes = [f"{law.law.full_name} from {len(law.sizes)} sizes, {behind}"]
    if cost is None:
        notes.append(f"no cost: {_why_no_cost(study, price)}")
    notes += ["nothing was measured on this machine"] if elsewhere else []
    return Option(
        configuration=configuration,
        basis=Basis.PREDICTED,
        run_ids=tuple(run.run_id for run in runs),
        reached=len(reached),
        time=time,
        cost=cost,
        notes=tuple(notes),
    )


def _samples(study: ScalingStudy, configuration: Configuration) -> tuple[float, float, str]:
    """Return the samples to the target of a configuration, the deviation of their logarithm, and what they come from.

    Raises:
        ValueError: If neither runs of its batch nor the law tell it.
    """
    batch = configuration.processes * configuration.num_envs * study.runs[0].horizon
    same = [run for run in study.runs if run.batch == batch and run.identity.steps]
    if study.runs[0].minibatches is None:  # learners with a replay memory draw a batch in each process
        same = [run for run in same if run.processes == configuration.processes]
    try:
        measured = samples_to_target(same)
        return measured.value, measured.deviation, "samples of runs with this batch"
    except ValueError:
        if not isinstance(study.batch_law, BatchFit):
            raise
    fitted = study.batch_law.at(batch)
    deviation = _deviation(fitted)
    if deviation is None:
        raise ValueError("the spread between runs is unknown")
    return fitted.value, deviation, f"samples by the law of {len(study.batch_law.batches)} batches"


def _cost(
    time: Estimate, study: ScalingStudy, price: Price, configuration: Configuration, confidence: float
) -> Estimate | None:
    """Return the cost per target-reaching checkpoint, with as many misses and as long an end as the runs had.

    Misses, and their uncertainty, are those of all runs of the study: each spend is taken relative to the median of the
    runs of its size that reached the target. If a size has no such run, what its misses cost is unknown, and there is
    no cost.
    """
    if _never_reached(study):
        return None
    relative: list[tuple[float, bool]] = []
    for point in study.points:
        wall_s = statistics.median(run.wall_s for run in point.runs if run.reached)
        relative += [(run.wall_s / wall_s, run.reached) for run in point.runs]
    per_target = sum(spent for spent, _ in relative) / sum(reached for _, reached in relative)
    most = float(np.quantile(cost_draws(relative, np.random.default_rng(0), _DRAWS), (1 + confidence) / 2))
    end_s = _median(run.wall_s - run.time_to_target_s for run in study.runs if run.time_to_target_s is not None)
    devices = configuration.processes if configuration.device != "cpu" else 1

    def usd(time_s: float) -> float | None:
        one = billable_usd([time_s + end_s], price, devices=devices, machines=1)
        return None if one is None else one * per_target

    value, low, high = (usd(time_s) for time_s in (time.value, *time.interval))
    if value is None or low is None or high is None:
        return None
    if not low:
        return FREE
    upper = value * math.exp(math.hypot(math.log(high / value), math.log(max(most / per_target, 1.0))))
    return Estimate(value=value, interval=(low, upper), run_spread=time.run_spread)


def _never_reached(study: ScalingStudy) -> list[ScalingPoint]:
    """Return the sizes that have runs, none of which reached the target."""
    return [point for point in study.points if not any(run.reached for run in point.runs)]


def _why_no_cost(study: ScalingStudy, price: Price) -> str:
    """Return why there is no predicted cost."""
    if price.usd_per_hour is None:
        return "unpriced"
    if hopeless := _never_reached(study):
        sizes = ", ".join(size_name(point.processes, point.num_envs, point.machines) for point in hopeless)
        return f"with {sizes} environments, no run reached the target"
    return "its energy is paid on top, and unknown"


def _deviation(figure: Figure) -> float | None:
    """Return the standard deviation of a figure's logarithm; ``None`` if it is unknown."""
    if figure.interval is None or not 0 < figure.interval[0] <= figure.interval[1] < math.inf:
        return None
    return math.log(figure.interval[1] / figure.interval[0]) / (2 * Z)


def _spread(study: ScalingStudy) -> float:
    """Return the standard deviation of the logarithm of the time of runs of the same size."""
    squares, freedom = 0.0, 0
    for point in study.points:
        logs = [math.log(run.time_to_target_s) for run in point.runs if run.time_to_target_s]
        if len(logs) > 1:
            squares += statistics.variance(logs) * (len(logs) - 1)
            freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
