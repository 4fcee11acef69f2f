"""Advice that would make a run shorter. Each gain is computed from what this run and others like it measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median, median_low

from ledger_lab.ledger import Run, RunDeclared
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.libraries import dialects, replays
from ledger_lab.ledger.meters import Phase
from ledger_lab.panels.slot_count import slots_in_all
from ledger_lab.reports.summary import RunSummary

_LEAST_GAIN = 0.1
"""Smallest gain that is advised, as a share of wall-clock time."""

_LEAST_ITERATIONS = 5
"""Shortest run whose times are used; shorter runs are dominated by their first steps."""

_COLD = 1.5
"""A start-up that takes this many times as long as in other runs counts as a cold start, for example with an empty
cache."""

_FREE = (
    "env.scene.num_envs=",
    "env.seed=",
    *(f"{dialect.seed}=" for dialect in dialects()),
    *(
        f"{dialect.overrides[field]}="
        for dialect in dialects()
        for field in ("max_iterations", "save_interval", "horizon", "epochs", "minibatches")
    ),
)
"""Overrides that do not change the time of a single computation."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One change, and the time it would save. Gains of several pieces of advice do not add up."""

    action: str
    gain: float
    """Share of the run's wall-clock time that the change saves for the same number of environment steps; in (0, 1)."""
    basis: str
    """The measured figures that the gain is computed from, and how."""
    caveat: str | None = None
    """Side effects of the change."""


class Advisor:
    """Gives advice on the runs of a ledger. What runs have in common is computed once."""

    def __init__(self, ledger: Iterable[tuple[Run, RunSummary]]) -> None:
        """Sort what the runs measured by their surroundings.

        Args:
            ledger: All runs, and their figures.
        """
        rollouts: dict[bytes, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        updates: dict[bytes, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._starts_s: dict[bytes, list[float]] = defaultdict(list)
        for run, summary in ledger:
            declared = run.declared
            if (start_s := _start_s(run, summary)) is not None:
                self._starts_s[_start_group(declared)].append(start_s)
            if _measures(run, summary):
                if (rollout_s := _rollout_s(summary)) is not None:
                    rollouts[_rollout_group(declared)][declared.num_envs].append(rollout_s / summary.env_steps)
                if (learn_s := seconds_in(summary, Phase.LEARN)) is not None:
                    updates[_update_group(declared)][_minibatch_size(declared)].append(learn_s / _samples(run, summary))
        self._rollouts, self._updates = _medians(rollouts), _medians(updates)

    def advise(self, run: Run, summary: RunSummary) -> list[Advice]:
        """Return all advice on a run, the largest gain first.

        Args:
            run: One of the runs of the ledger.
            summary: Its figures.
        """
        if summary.wall_s <= 0:
            return []
        found = [self._warmer_start(run, summary)]
        if _measures(run, summary):
            found += [
                self._more_environments(run.declared, summary),
                self._larger_minibatches(run, summary),
                _less_frequent_scoring(run, summary),
            ]
        advice = [each for each in found if each is not None and each.gain >= _LEAST_GAIN]
        return sorted(advice, key=lambda each: each.gain, reverse=True)

    def _more_environments(self, declared: RunDeclared, summary: RunSummary) -> Advice | None:
        """Advise the number of environments with which other runs took the least time per environment step."""
        rollout_s = _rollout_s(summary)
        larger = _larger(self._rollouts.get(_rollout_group(declared), {}), declared.num_envs)
        if rollout_s is None or not larger:
            return None
        best = min(larger, key=lambda size: larger[size])
        own_s = rollout_s / summary.env_steps
        caveat = "may take more steps to learn"
        if replays(summary.algorithm):
            caveat += "; changes the gradient steps per environment step, and the size of the replay memory"
        return Advice(
            action=f"train in {best} environments instead of {declared.num_envs}",
            gain=rollout_s * (1 - larger[best] / own_s) / summary.wall_s,
            basis=(
                f"simulate, manage and infer took {1e6 * own_s:.3g} µs per environment step here, and "
                f"{1e6 * larger[best]:.3g} µs in the median of runs in {best} environments"
            ),
            caveat=caveat,
        )

    def _larger_minibatches(self, run: Run, summary: RunSummary) -> Advice | None:
        """Advise the size of minibatches with which other runs took the least time to learn from a sample."""
        declared, learn_s = run.declared, seconds_in(summary, Phase.LEARN)
        measured = _larger(self._updates.get(_update_group(declared), {}), _minibatch_size(declared))
        batch = declared.num_envs * declared.horizon
        larger = {size: time_s for size, time_s in measured.items() if batch % size == 0}
        if learn_s is None or not larger or replays(summary.algorithm):
            return None
        best = min(larger, key=lambda size: larger[size])
        own_s = learn_s / _samples(run, summary)
        return Advice(
            action=f"update with {batch // best} minibatches instead of {declared.minibatches}",
            gain=learn_s * (1 - larger[best] / own_s) / summary.wall_s,
            basis=(
                f"learn took {1e6 * own_s:.3g} µs per sample here, and {1e6 * larger[best]:.3g} µs in the median of "
                f"runs with minibatches of {best} samples"
            ),
            caveat="may take more steps to learn",
        )

    def _warmer_start(self, run: Run, summary: RunSummary) -> Advice | None:
        """Advise warm caches, if other runs of the same size started faster."""
        own_s, starts_s = _start_s(run, summary), self._starts_s.get(_start_group(run.declared), [])
        if own_s is None or own_s < _COLD * (usual_s := median_low(starts_s)):
            return None
        return Advice(
            action="start with warm caches: keep the kernel cache (~/.cache/warp) and the packages on a local disk",
            gain=(own_s - usual_s) / summary.wall_s,
            basis=(
                f"start-up and compilation took {own_s:.1f} s here, and {usual_s:.1f} s in the median of "
                f"{len(starts_s)} runs of the same size"
            ),
        )


def _less_frequent_scoring(run: Run, summary: RunSummary) -> Advice | None:
    """Advise scoring half as many policies; the gain is the time of scoring outside the environment steps."""
    declared, step_s = run.declared, seconds_in(summary, Phase.SIMULATE, Phase.MANAGE)
    screened = {row.checkpoint for row in run.results if row.purpose == "screening"}
    iterations = sorted(saved.iteration for saved in run.checkpoints if saved.path in screened)
    if step_s is None or len(iterations) < 3 or not declared.held_out_slots:
        return None
    evaluate_ns = sum(window.phase_ns.get(Phase.EVALUATE, 0) for _, window in run.windows if window.iteration)
    held_out = slots_in_all(declared.num_envs, declared.held_out_slots) - declared.num_envs
    slots_s = step_s * held_out / declared.num_envs
    scoring_s = evaluate_ns / 1e9 - slots_s
    every = round(2 * (iterations[-1] - iterations[0]) / (len(iterations) - 1))
    return Advice(
        action=f"score half as often: --eval_every {every}",
        gain=scoring_s / 2 / summary.wall_s,
        basis=(
            f"of evaluate in the training loop, {slots_s:.1f} s are the held-out slots' part of the steps, at any "
            f"cadence; scoring {len(iterations)} policies took {scoring_s:.1f} s"
        ),
        caveat="a policy that reaches the target is noticed later",
    )


def seconds_in(summary: RunSummary, *phases: Phase) -> float | None:
    """Return the time of a run in some phases [s]; ``None`` if none of them took any time."""
    found = [summary.phases[phase] for phase in phases if phase in summary.phases]
    return sum(found) if found else None


def times_launches(declared: RunDeclared) -> bool:
    """Tell whether the phases of a run are the times in which the host launched work, not those of the work itself."""
    return declared.device != "cpu" and declared.timing == "host"


def _iterations(run: Run, summary: RunSummary) -> int:
    """Return the iterations of a run."""
    return summary.env_steps // run.declared.env_steps_per_iteration


def _measures(run: Run, summary: RunSummary) -> bool:
    """Tell whether a run measured its loop, long and undisturbed enough for its times to be compared."""
    enough = _iterations(run, summary) >= _LEAST_ITERATIONS and len(run.attempts) == 1
    return enough and not times_launches(run.declared)


def _start_s(run: Run, summary: RunSummary) -> float | None:
    """Return the time of start-up and compilation of a run that started once and trained [s]."""
    trained_at_once = len(run.attempts) == 1 and _iterations(run, summary)
    return seconds_in(summary, Phase.STARTUP, Phase.COMPILE) if trained_at_once else None


def _rollout_s(summary: RunSummary) -> float | None:
    """Return the time of the environment's steps and of the policy in them, without the share of held-out slots [s]."""
    return seconds_in(summary, Phase.SIMULATE, Phase.MANAGE, Phase.INFER)


def _minibatch_size(declared: RunDeclared) -> int:
    """Return the environment steps in a minibatch of one process."""
    return declared.num_envs * declared.horizon // declared.minibatches


def _samples(run: Run, summary: RunSummary) -> int:
    """Return from how many samples one process learned, each of them counted in each epoch."""
    return _iterations(run, summary) * run.declared.epochs * run.declared.num_envs * run.declared.horizon


def _surroundings(declared: RunDeclared, *more: object) -> bytes:
    """Return what must be equal before times are compared."""
    versions = {name: version for name, version in declared.versions.items() if name != "ledger_lab"}
    overrides = sorted(each for each in declared.overrides if not each.startswith(_FREE))
    return canonical_json(
        [
            declared.task,
            declared.rl_library,
            declared.agent,
            declared.device,
            declared.world_size,
            declared.physics,
            declared.hardware,
            declared.machine,
            declared.timing,
            versions,
            overrides,
            *more,
        ]  # fmt: skip
    )


def _start_group(declared: RunDeclared) -> bytes:
    """Return what runs have in common whose start-ups are alike."""
    return _surroundings(declared, declared.num_envs, declared.held_out_slots)


def _rollout_group(declared: RunDeclared) -> bytes:
    """Return what runs have in common whose steps are alike, whatever their number of environments."""
    return _surroundings(declared, declared.held_out_slots, declared.config_sha256.get("agent"))


def _update_group(declared: RunDeclared) -> bytes:
    """Return what runs have in common whose updates are alike, whatever the size of their minibatches.

    Another minibatch size changes the configuration's hash; the same code and overrides give the same network.
    """
    code = declared.code_sha256 or [declared.versions.get("ledger_lab"), declared.git]
    return _surroundings(declared, code)


def _medians(groups: Mapping[bytes, Mapping[int, list[float]]]) -> dict[bytes, dict[int, float]]:
    """Return the median time of each size in each group."""
    return {group: {size: median(times_s) for size, times_s in by_size.items()} for group, by_size in groups.items()}


def _larger(by_size: Mapping[int, float], own: int) -> dict[int, float]:
    """Return the times of the sizes that are larger than that of a run."""
    return {size: time_s for size, time_s in by_size.items() if size > own}
