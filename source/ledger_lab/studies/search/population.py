"""The population: which member trains its next stage, with which values, and which member is replaced by a copy.

Population-based training (Jaderberg et al. 2017, arXiv:1711.09846), in generations. In each generation, every member
trains one stage, as a run of its own. The first stage begins with random networks and random values. Later ones
begin with the last policy of the generation before: a member goes on with its own policy and values, or it is replaced
by a copy of a better member, with changed values.

Everything random is a hash of the search's digest and the place where it is used.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from ledger_lab.studies.search.declaration import Population, SearchDeclaration
from ledger_lab.studies.search.situation import Decision, End, Situation, Start, Wait
from ledger_lab.studies.search.space import Value, Values, is_override
from ledger_lab.studies.search.store import first_accepted
from ledger_lab.studies.search.trials import Outcome, Trial, generation_of, member_of

DRAWN_ANEW: Final = 0.25
"""Probability that a value of a copied member is drawn from its whole range, instead of being changed by a factor."""
_CAP_RATIO: Final = 4.0
"""Largest cap of a stage ÷ the slowest stage of the generation before. A member is much slower than the others
if it has more epochs, and much more so if it hangs."""
_RANDOM_BYTES: Final = 6
"""Bytes of a hash that make a random number: a float holds them exactly, so that the number is less than 1."""


def decide_population(situation: Situation) -> Decision:
    """Decide what comes next in the training of a population.

    Args:
        situation: What the decision depends on. The values of a new stage are stored.

    Raises:
        UserError: If no values of a member are accepted.
    """
    declaration = situation.declaration
    if found := reached(situation.trials):
        if any(run.outcome is Outcome.RUNNING for run in situation.runs):
            return Wait("a member has reached the target, and others still train their stages")
        member, generation = (of(declaration, found[0].number) for of in (member_of, generation_of))
        return End(f"member {member} reached the target in generation {generation}")
    if interrupted := situation.interrupted():
        return interrupted
    generations = by_generation(declaration, situation.trials)
    number = next(each for each in itertools.count(1) if _started(generations.get(each, ())) < declaration.members)
    before = generations.get(number - 1, ())
    if not all(trial.has_ended for trial in before):
        return Wait(f"generation {number - 1} has not ended yet")
    if before and all(score(trial) is None for trial in before):
        return End(
            f"no member of generation {number - 1} trained its stage to the end: correct the cause, or raise the "
            "budget; move the runs of this generation away to train it again"
        )
    return _start(situation, number, before, generations.get(number, ()))


def by_generation(declaration: SearchDeclaration, trials: Sequence[Trial]) -> dict[int, tuple[Trial, ...]]:
    """Return the trials of a population by generation, oldest first.

    Args:
        declaration: The search.
        trials: Its trials by number.
    """
    members = [trial for trial in trials if not trial.is_stock]
    groups = itertools.groupby(members, key=lambda trial: generation_of(declaration, trial.number))
    return {generation: tuple(own) for generation, own in groups}


def reached(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials of a population that reached the target, those with the shortest lineage in time first.

    Args:
        trials: Trials of a population, by number.
    """
    found = [trial for trial in trials if trial.reached]
    return sorted(found, key=lambda trial: (lineage_s(trials, trial), trial.number))


def lineage(trials: Sequence[Trial], trial: Trial) -> list[Trial]:
    """Return the trials whose stages led to a policy, oldest first; the last one is the trial itself.

    Args:
        trials: All trials.
        trial: The trial of the policy.
    """
    by_number = {each.number: each for each in trials}
    found = [trial]
    while found[-1].parent is not None:
        found.append(by_number[found[-1].parent])
    return found[::-1]


def lineage_s(trials: Sequence[Trial], trial: Trial) -> float:
    """Return the wall-clock time of the stages that led to a policy [s].

    Args:
        trials: All trials.
        trial: The trial of the policy.
    """
    return sum(run.wall_s for each in lineage(trials, trial) for run in each.runs)


def score(trial: Trial) -> float | None:
    """Return the success rate of a member's last policy on the panel; ``None`` if no member can go on with it.

    Args:
        trial: A trial of a population.
    """
    return next((run.success for run in trial.runs if run.outcome in _WITH_A_POLICY), None)


_WITH_A_POLICY = (Outcome.REACHED, Outcome.MISSED)
"""Outcomes of stages that were trained to their end, so that their last policy was judged."""


def ranked_members(declaration: SearchDeclaration, generation: Sequence[Trial]) -> list[Trial]:
    """Return the members of a generation, best first; of equal ones, the first member.

    Args:
        declaration: The search.
        generation: Its trials.
    """
    rank = _ranks(declaration, generation)
    return sorted(generation, key=lambda trial: rank[trial.number], reverse=True)


def _ranks(declaration: SearchDeclaration, generation: Sequence[Trial]) -> dict[int, tuple[bool, float, float]]:
    """Return what members are compared by, by the numbers of their trials; a larger tuple is better.

    Members are compared by the success of their last policy on the panel, whose seeds are the same for all. Only while
    no member succeeds in any episode, the mean return of the training episodes decides, because a return depends on
    rewards that may not be what the task is about. It does not decide if the search varies settings of the task: such
    a setting may be a weight of a reward. Members without a policy to go on with come last.
    """
    by_return = not any(score(trial) for trial in generation) and not any(
        is_override(each.name) for each in declaration.parameters
    )
    ranks = {}
    for trial in generation:
        success = score(trial)
        returns = [run.mean_return for run in trial.runs if by_return and run.mean_return is not None]
        mean_return = max(returns, default=-math.inf if by_return else 0.0)
        ranks[trial.number] = (False, 0.0, -math.inf) if success is None else (True, success, mean_return)
    return ranks


def _started(generation: Sequence[Trial]) -> int:
    """Return how many members of a generation have begun to train."""
    return sum(bool(trial.runs) for trial in generation)


def _start(situation: Situation, number: int, before: Sequence[Trial], stored: Sequence[Trial]) -> Decision:
    """Start the stage of the next member of a generation.

    Args:
        situation: What the decision depends on.
        number: Number of the generation.
        before: Trials of the generation before; none for the first generation.
        stored: Trials of this generation that are stored; not all have begun to train.
    """
    declaration = situation.declaration
    slowest_s = max((run.wall_s for each in before for run in each.runs if run.outcome in _WITH_A_POLICY), default=None)
    if slowest_s is not None and not _started(stored):
        needed = declaration.members * situation.from_budget(slowest_s)
        if needed > situation.left:
            unit = declaration.unit
            return End(f"the rest of the budget does not buy another generation, which takes about {needed:.3g} {unit}")
    cap_s = situation.share_s(declaration.members - _started(stored))
    if cap_s <= 0:
        if situation.is_under_way:
            return Wait("the trainings under way may use up the budget")
        return End(f"the budget is used up in generation {number}: raise it")
    trial = next((each for each in stored if not each.runs), None) or _new_trial(situation, before)
    seed = declaration.search_seeds[member_of(declaration, trial.number) - 1]
    return Start.of(trial, seed, cap_s if slowest_s is None else min(cap_s, _CAP_RATIO * slowest_s))


def _new_trial(situation: Situation, before: Sequence[Trial]) -> Trial:
    """Store the next stage: with the values that its member had, with changed ones of another member, or random ones.

    Args:
        situation: What is known of the search.
        before: Trials of the generation before; none for the first generation.
    """
    declaration, number = situation.declaration, len(situation.trials)
    member = member_of(declaration, number)
    parent = heir_of(declaration, before, member) if before else None
    if parent is not None and member_of(declaration, parent.number) == member:
        values = parent.values
    else:
        proposals = _proposals(declaration, {} if parent is None else parent.values, number)
        values = first_accepted(declaration, proposals, situation.refuses)
    return situation.store.add(values, None if parent is None else parent.number)


def heir_of(declaration: SearchDeclaration, before: Sequence[Trial], member: int) -> Trial:
    """Return the trial with whose policy a member begins a generation: its own one, or that of a better member.

    The worst members are replaced, and those without a policy to go on with; each by one of the best, drawn at random.
    A member is only replaced by a better one.

    Args:
        declaration: The search.
        before: The trials of the generation before, which has ended; one of them has a policy to go on with.
        member: The member.
    """
    ranked, rank = ranked_members(declaration, before), _ranks(declaration, before)
    count = max(1, round(_settings(declaration).replaced * declaration.members))
    best = [each for each in ranked[:count] if score(each) is not None]
    own = next(place for place, trial in enumerate(ranked) if member_of(declaration, trial.number) == member)
    trial = ranked[own]
    if score(trial) is not None and own < len(ranked) - count:
        return trial
    generation = generation_of(declaration, trial.number) + 1
    drawn = best[int(_random(declaration, generation, member, "parent") * len(best))]
    return drawn if rank[drawn.number] > rank[trial.number] else trial


def _proposals(declaration: SearchDeclaration, of: Values, trial: int) -> Iterator[Values]:
    """Draw values of a member, again and again.

    Args:
        declaration: The search.
        of: Values of the copied member; a value that is missing is drawn from its whole range.
        trial: Number of the new trial.
    """
    factors = _settings(declaration).factors
    for turn in itertools.count():
        values: dict[str, Value] = {}
        for each in declaration.parameters:
            if not each.is_active(values):
                continue
            kind, amount = (_random(declaration, trial, turn, each.name, what) for what in ("kind", "amount"))
            if each.name not in of or kind < DRAWN_ANEW:
                values[each.name] = each.at(amount)
            else:
                values[each.name] = each.changed(of[each.name], factors[int(amount * len(factors))])
        yield values


def _settings(declaration: SearchDeclaration) -> Population:
    """Return the table ``[population]``."""
    assert declaration.population is not None
    return declaration.population


def _random(declaration: SearchDeclaration, *place: object) -> float:
    """Return a random number in [0, 1) that depends on nothing but the search and the place of its use."""
    text = ":".join(map(str, (declaration.digest, *place)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_RANDOM_BYTES]) / 256**_RANDOM_BYTES
