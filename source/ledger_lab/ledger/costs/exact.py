"""Exact bound and interval of a share, for any number of episodes or runs."""

from __future__ import annotations


def lower_bound(successes: int, episodes: int, confidence: float = 0.95) -> float:
    """Return the one-sided exact lower bound of a binomial share (Clopper & Pearson 1934, Biometrika 26:404).

    If the true share is below some value, the bound exceeds the value with a probability of at most ``1 - confidence``.
    Example: of 256 episodes, 239 must succeed for the 95 % bound to reach 90 %.

    Args:
        successes: Number of successes.
        episodes: Number of independent trials, at least 1.
        confidence: One-sided confidence level in (0, 1).

    Returns:
        Lower bound, in [0, 1).

    Raises:
        ValueError: If there are no trials, or more successes than trials.
    """
    if not 0 <= successes <= episodes or episodes < 1:
        raise ValueError(f"{successes} successes of {episodes} episodes")
    if successes == 0:
        return 0.0
    from scipy.special import betaincinv  # takes longer to load than most reports

    return float(betaincinv(successes, episodes - successes + 1, 1 - confidence))


def exact_interval(count: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a share (Clopper & Pearson 1934, Biometrika 26:404).

    It also holds for the mean of the shares of several kinds of runs, if each kind has a fixed number of runs: then
    the count varies less than for equal shares (Hoeffding 1956, Annals of Mathematical Statistics 27:713).

    Args:
        count: Runs that count.
        runs: All runs, at least 1.
        confidence: Two-sided confidence level in (0, 1).

    Returns:
        Lower and upper end, in [0, 1].
    """
    one_sided = 0.5 + confidence / 2
    return lower_bound(count, runs, one_sided), 1 - lower_bound(runs - count, runs, one_sided)
