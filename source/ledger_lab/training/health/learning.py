"""Detectors over the figures that a library logs about its updates."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from ledger_lab.ledger.health import Event
from ledger_lab.training.health.events import Detection, Settings
from ledger_lab.training.health.iteration import Debounce, Iteration, spread

_CALM = 20
"""Iterations without the problem after which it is reported again."""


class NonFinite:
    """A figure is NaN or infinite, so everything computed from it is meaningless."""

    def __init__(self, settings: Settings) -> None:
        """Start without a problem."""
        self._settings = settings
        self._debounce = Debounce(patience=1, calm=_CALM)

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        spoiled = [name for name, value in seen.figures.items() if not math.isfinite(value)]
        return self._detection(f"{', '.join(spoiled)} not finite" if spoiled else None)

    def failed(self, reason: str) -> Detection | None:
        """Handle the error of a library that found NaN or infinity inside an iteration."""
        return self._detection(reason)

    def _detection(self, evidence: str | None) -> Detection | None:
        """Return the detection, unless it was reported before."""
        if not self._debounce.should_report(evidence is not None) or evidence is None:
            return None
        second = self._settings["reward_scale" if self._settings.has_replay else "max_grad_norm"]
        return Detection(
            Event.NON_FINITE,
            evidence,
            f"lower {self._settings['learning_rate']} or {second}; if rewards or observations are at fault, look for a "
            "division by zero or for bodies that the physics throws off",
        )


class ValueLossExplosion:
    """The value loss explodes.

    Value losses of good trainings differ by any factor between tasks, and by a factor of a thousand within one. They
    fall when the policy settles, and may rise again a hundredfold, but hardly above their first peak. They stay near
    the squared returns, which they consist of.

    The values of an algorithm with a replay memory may also contain the entropy of the policy. If the returns are
    small, their loss is then far above the squared returns, and no problem. So there, the loss must also exceed its own
    peak.

    A critic that estimates the distribution of the return has a cross-entropy as its loss. It has another unit than the
    squared returns, and the estimates cannot leave the range of the distribution. So there, nothing is reported.
    """

    _BEYOND = 1e4
    """Ratio to the squared return: an error of 100 times the largest mean return so far. Even if positive and negative
    returns cancel, the mean over the usual 100 episodes is within a factor of 10 of a single return."""
    _ABSURD = 1e8
    """Ratio to the squared return that is reported after a single iteration, because often there is no second
    iteration."""
    _JUMP, _PEAK = 30.0, 5.0
    """Factor above the recent median, and above the largest earlier value; good trainings reach 21 and 2.1."""
    _BETTER = 0.05
    """Share of the range of the returns by which a new best return must exceed the old best return. Noise alone can
    exceed it by less."""
    _RECENT, _LATELY, _WARM_UP = 30, 10, 10

    def __init__(self, settings: Settings) -> None:
        """Start without a problem."""
        self._settings = settings
        self._debounce = Debounce(patience=3, calm=_CALM)
        self._recent: deque[float] = deque(maxlen=self._RECENT)
        self._levels: deque[float] = deque(maxlen=self._LATELY)
        self._peak = 0.0
        self._best_return = -math.inf
        self._worst_return = math.inf
        self._largest_return = 0.0
        self._since_best = 0

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        returned = seen.figures.get("mean_return")
        if returned is not None:
            self._largest_return = max(self._largest_return, abs(returned))
            self._worst_return = min(self._worst_return, returned)
            better = returned > self._best_return + self._BETTER * (self._best_return - self._worst_return)
            self._since_best = 0 if better else self._since_best + 1
            self._best_return = returned if better else self._best_return
        loss = seen.figures.get("value_loss")
        if loss is None or self._settings.estimates_distributions:
            return None
        usual = median(self._recent) if len(self._recent) >= self._WARM_UP else None
        self._recent.append(loss)
        level = median(list(self._recent)[-3:])
        if len(self._levels) == self._LATELY:
            self._peak = max(self._peak, self._levels[0])
        self._levels.append(level)
        largest = self._settings.value_scale * self._largest_return
        scale = largest * largest  # ** would raise an error instead of returning infinity
        risen = self._peak > 0 and level > self._PEAK * self._peak
        counts = scale > 0 and (risen or not self._settings.has_replay)
        beyond = counts and level > self._BEYOND * scale
        # When a policy has just found its reward, its value function lags behind, which is no problem.
        jumped = (
            usual is not None
            and risen
            and level > self._JUMP * usual
            and level > scale
            and self._since_best >= self._WARM_UP
        )
        absurd = counts and loss > self._ABSURD * scale
        if not self._debounce.should_report(beyond or jumped or absurd, at_once=absurd):
            return None
        names = self._settings
        returned_most = f"a largest mean return of {self._largest_return:.3g}"
        others = ("polyak", "updates_per_step") if names.has_replay else ("value_coef", "max_grad_norm")
        return Detection(
            Event.VALUE_LOSS_EXPLOSION,
            f"value loss {loss:.3g}, against " + (f"{self._peak:.3g} at most before" if jumped else returned_most),
            f"lower {names['learning_rate']}{_now(seen)}, {' or '.join(map(names.__getitem__, others))}, or scale the "
            "rewards down",
        )


class EntropyCollapse:
    """The policy stops exploring before it has learned.

    Uses the standard deviation of the actions. If a library logs only the entropy, uses the standard deviation per
    action that this entropy means for a Gaussian policy that starts at 1.

    SAC aims at an entropy. The standard deviation falls quickly to the one that this entropy means, and may fall below
    it for some iterations until the weight of the entropy has grown. So there, only a standard deviation that stays far
    below is reported, whatever it was at the start.
    """

    _FLOOR = 0.02
    """Share of the initial noise below which there is no exploration; good trainings kept 6 % or more."""
    _FALL, _WITHIN = 0.25, 10
    """Remaining share after this many iterations of a fall; good trainings kept 51 % or more."""
    _GAUSSIAN = 0.5 * math.log(2 * math.pi * math.e)
    """Entropy of a normal distribution with a standard deviation of 1 [nat]."""
    _LARGEST_ENTROPY = math.log(2.0)
    """Entropy of an action, as a share of its bound, that is uniform between -1 and 1 [nat]. No action has more."""
    _BELOW = 0.25
    """Share of the standard deviation that SAC aims at, below which it does not explore."""

    def __init__(self, settings: Settings) -> None:
        """Start without a problem."""
        self._settings = settings
        self._aim = self._std_with(settings.entropy_target)
        self._debounce = Debounce(patience=2 if self._aim is None else 10, calm=_CALM)
        self._first: list[float] = []
        self._actions: float | None = None
        self._recent: deque[float] = deque(maxlen=self._WITHIN + 1)

    def look(self, seen: Iteration, learned: bool) -> Detection | None:
        """Examine an iteration.

        Args:
            seen: The iteration.
            learned: Whether held-out episodes show that the policy reaches its target. If so, low noise is not
                reported.
        """
        noise = self._noise(seen)
        if noise is None:
            return None
        if len(self._first) < 3:
            self._first.append(noise)
        self._recent.append(noise)
        if self._aim is not None:
            low, since = noise <= self._BELOW * self._aim, f"while SAC aims at {self._aim:.3g}"
        else:
            first, lately = median(self._first), max(self._recent)
            gone = noise <= self._FLOOR * first and noise < first
            low = gone or (noise <= self._FALL * lately and noise < lately)
            earlier = f"{first:.3g} at the start" if gone else f"{lately:.3g} within {len(self._recent) - 1} iterations"
            since = f"from {earlier}"
        if not self._debounce.should_report(low and not learned):
            return None
        more = f" or {self._settings['initial_noise_std']}" if self._aim is None else ""
        return Detection(
            Event.ENTROPY_COLLAPSE,
            f"standard deviation of the actions {noise:.3g}, {since}",
            f"raise {self._settings.exploration}{more}, or lower {self._settings['learning_rate']}{_now(seen)}",
        )

    def _std_with(self, entropy: float | None) -> float | None:
        """Return the standard deviation of a Gaussian action with an entropy; ``None`` if SAC aims at none."""
        return None if entropy is None else math.exp(min(entropy, self._LARGEST_ENTROPY) - self._GAUSSIAN)

    def _noise(self, seen: Iteration) -> float | None:
        """Return the standard deviation of the actions; ``None`` if unknown."""
        if "action_std" in seen.figures:
            return seen.figures["action_std"]
        entropy = seen.figures.get("entropy")
        if entropy is None:
            return None
        if self._actions is None:
            self._actions = max(1.0, round(entropy / self._GAUSSIAN))
        return math.exp(min(entropy / self._actions - self._GAUSSIAN, 50.0))


class KlOutOfRange:
    """Updates leave the region in which the surrogate objective is valid, or do not change the policy.

    Algorithms with a replay memory have no such region, and report no divergence.
    """

    _HIGH = 0.2
    """Mean divergence of an update [nat]. The usual clipping of ratios at 0.2 takes effect at about 0.2² / 2 = 0.02."""
    _LOW = 1e-6
    """Below it, an update changes nothing [nat]; updates of good trainings stay above 1e-3."""

    def __init__(self, settings: Settings) -> None:
        """Start without a problem."""
        self._settings = settings
        self._high = Debounce(patience=3, calm=_CALM)
        self._low = Debounce(patience=20, calm=_CALM)

    def look(self, seen: Iteration, learned: bool) -> Detection | None:
        """Examine an iteration.

        Args:
            seen: The iteration.
            learned: Whether held-out episodes show that the policy reaches its target. If so, an unchanged policy is
                not reported.
        """
        divergence = seen.figures.get("kl")
        if divergence is None:
            return None
        rate, now = self._settings["learning_rate"], _now(seen)
        if self._high.should_report(divergence > self._HIGH):
            return Detection(
                Event.KL_OUT_OF_RANGE,
                f"KL divergence of an update {divergence:.3g} nat, above {self._HIGH:g} for 3 iterations",
                f"lower {rate}{now} or {self._settings['epochs']}, or let {self._settings['schedule']}="
                f"{self._settings.adaptive} hold {self._settings['kl_target']}",
            )
        if self._low.should_report(abs(divergence) < self._LOW and not learned):
            return Detection(
                Event.KL_OUT_OF_RANGE,
                f"KL divergence of an update {divergence:.3g} nat, below {self._LOW:g} for 20 iterations: the policy "
                "does not change",
                f"raise {rate}{now} or {self._settings['kl_target']}",
            )
        return None


class GradientSpikes:
    """Gradients repeatedly jump far above their usual size, so clipping discards most of a batch."""

    _JUMP, _DEVIATIONS = 20.0, 10.0
    """Factor above the median, and number of robust standard deviations above it, of a spike."""
    _COUNT, _WITHIN = 3, 10
    _RECENT, _WARM_UP = 30, 10

    def __init__(self, settings: Settings) -> None:
        """Start without a problem."""
        self._settings = settings
        self._debounce = Debounce(patience=1, calm=_CALM)
        self._recent: deque[float] = deque(maxlen=self._RECENT)
        self._spikes: deque[float | None] = deque(maxlen=self._WITHIN)

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        norm = seen.figures.get("grad_norm")
        if norm is None:
            return None
        spike, usual = False, 0.0
        if len(self._recent) >= self._WARM_UP:
            usual = median(self._recent)
            spike = norm > max(self._JUMP * usual, usual + self._DEVIATIONS * spread(list(self._recent)))
        self._recent.append(norm)
        self._spikes.append(norm if spike else None)
        spikes = [each for each in self._spikes if each is not None]
        if not self._debounce.should_report(len(spikes) >= self._COUNT):
            return None
        clip = "" if self._settings.has_replay else f"{self._settings['max_grad_norm']} or "
        return Detection(
            Event.GRADIENT_SPIKES,
            f"{len(spikes)} of {len(self._spikes)} iterations with a gradient norm up to {max(spikes):.3g}, against "
            f"{usual:.3g} usually",
            f"lower {clip}{self._settings['learning_rate']}{_now(seen)}, or look for rewards that jump",
        )


def _now(seen: Iteration) -> str:
    """Return the learning rate of the iteration as a remark, if it is known."""
    rate = seen.figures.get("learning_rate")
    return "" if rate is None else f" (now {rate:.3g})"
