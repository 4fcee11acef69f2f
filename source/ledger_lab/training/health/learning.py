"""Detectors over the figures that a library logs about its updates."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from ledger_lab.ledger.rows import Event
from ledger_lab.training.health.detector import Detection, Detector, Iteration, Settings, spread

_RECENT, _WARM_UP = 30, 10
"""Iterations over which a figure's usual value is taken, and the smallest number of them."""


class NonFinite(Detector):
    """A figure is NaN or infinite, so everything computed from it is meaningless."""

    event = Event.NON_FINITE

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        spoiled = [name for name, value in seen.figures.items() if not math.isfinite(value)]
        return self.failed(f"{', '.join(spoiled)} not finite" if spoiled else None)

    def failed(self, reason: str | None) -> Detection | None:
        """Handle the error of a library that found NaN or infinity inside an iteration; ``None`` for no error."""
        if not self.is_due(reason is not None) or reason is None:
            return None
        second = self.settings["reward_scale" if self.settings.has_replay else "max_grad_norm"]
        return self.detection(
            reason,
            f"lower {self.settings['learning_rate']} or {second}; if rewards or observations are at fault, look for a "
            "division by zero or for bodies that the physics throws off",
        )


class ValueLossExplosion(Detector):
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

    event, patience = Event.VALUE_LOSS_EXPLOSION, 3

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
    _LATELY = 10

    def __init__(self, settings: Settings) -> None:
        """Start without a problem."""
        super().__init__(settings)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._levels: deque[float] = deque(maxlen=self._LATELY)
        self._peak = 0.0
        self._best_return, self._worst_return, self._largest_return = -math.inf, math.inf, 0.0
        self._since_best = 0

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        self._note_return(seen.figures.get("mean_return"))
        loss = seen.figures.get("value_loss")
        if loss is None:
            return None
        usual = median(self._recent) if len(self._recent) >= _WARM_UP else math.inf
        self._recent.append(loss)
        level = median(list(self._recent)[-3:])
        if len(self._levels) == self._LATELY:
            self._peak = max(self._peak, self._levels[0])
        self._levels.append(level)
        largest = self.settings.value_scale * self._largest_return
        scale = largest * largest  # ** would raise an error instead of returning infinity
        risen = self._peak > 0 and level > self._PEAK * self._peak
        counts = scale > 0 and (risen or not self.settings.has_replay)
        # When a policy has just found its reward, its value function lags behind, which is no problem.
        jumped = risen and level > max(self._JUMP * usual, scale) and self._since_best >= _WARM_UP
        absurd = counts and loss > self._ABSURD * scale
        if not self.is_due(jumped or absurd or (counts and level > self._BEYOND * scale), at_once=absurd):
            return None
        returned_most = f"a largest mean return of {self._largest_return:.3g}"
        others = ("polyak", "updates_per_step") if self.settings.has_replay else ("value_coef", "max_grad_norm")
        return self.detection(
            f"value loss {loss:.3g}, against " + (f"{self._peak:.3g} at most before" if jumped else returned_most),
            f"lower {self.learning_rate(seen)}, {' or '.join(self.settings[name] for name in others)}, or scale the "
            "rewards down",
        )

    def _note_return(self, returned: float | None) -> None:
        """Keep the range of the returns, and how long ago the best return was exceeded."""
        if returned is None:
            return
        self._largest_return = max(self._largest_return, abs(returned))
        self._worst_return = min(self._worst_return, returned)
        better = returned > self._best_return + self._BETTER * (self._best_return - self._worst_return)
        self._since_best = 0 if better else self._since_best + 1
        self._best_return = returned if better else self._best_return


class EntropyCollapse(Detector):
    """The policy stops exploring before it has learned.

    Uses the standard deviation of the actions. If a library logs only the entropy, uses the standard deviation per
    action that this entropy means for a Gaussian policy that starts at 1.

    SAC aims at an entropy. The standard deviation falls quickly to the one that this entropy means, and may fall below
    it for some iterations until the weight of the entropy has grown. So there, only a standard deviation that stays far
    below is reported, whatever it was at the start.
    """

    event = Event.ENTROPY_COLLAPSE

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
        super().__init__(settings)
        target = settings.entropy_target
        self._aim = None if target is None else math.exp(min(target, self._LARGEST_ENTROPY) - self._GAUSSIAN)
        self.patience = 2 if self._aim is None else 10
        self._first: list[float] = []
        self._actions: float | None = None
        self._recent: deque[float] = deque(maxlen=self._WITHIN + 1)

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
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
        if not self.is_due(low and not seen.learned):
            return None
        more = f" or {self.settings['initial_noise_std']}" if self._aim is None else ""
        return self.detection(
            f"standard deviation of the actions {noise:.3g}, {since}",
            f"raise {self.settings.exploration}{more}, or lower {self.learning_rate(seen)}",
        )

    def _noise(self, seen: Iteration) -> float | None:
        """Return the standard deviation of the actions; ``None`` if unknown."""
        entropy = seen.figures.get("entropy")
        if "action_std" in seen.figures or entropy is None:
            return seen.figures.get("action_std")
        if self._actions is None:
            self._actions = max(1.0, round(entropy / self._GAUSSIAN))
        return math.exp(min(entropy / self._actions - self._GAUSSIAN, 50.0))


class KlTooHigh(Detector):
    """Updates leave the region in which the surrogate objective is valid.

    Algorithms with a replay memory have no such region, and report no divergence.
    """

    event, patience = Event.KL_OUT_OF_RANGE, 3

    _HIGH = 0.2
    """Mean divergence of an update [nat]. The usual clipping of ratios at 0.2 takes effect at about 0.2² / 2 = 0.02."""

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        divergence = seen.figures.get("kl")
        if divergence is None or not self.is_due(divergence > self._HIGH):
            return None
        names = self.settings
        return self.detection(
            f"KL divergence of an update {divergence:.3g} nat, above {self._HIGH:g} for {self.patience} iterations",
            f"lower {self.learning_rate(seen)} or {names['epochs']}, or let {names['schedule']}={names.adaptive} hold "
            f"{names['kl_target']}",
        )


class KlTooLow(Detector):
    """Updates do not change the policy, although it has not reached its target."""

    event, patience = Event.KL_OUT_OF_RANGE, 20

    _LOW = 1e-6
    """Below it, an update changes nothing [nat]; updates of good trainings stay above 1e-3."""

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        divergence = seen.figures.get("kl")
        if divergence is None or not self.is_due(abs(divergence) < self._LOW and not seen.learned):
            return None
        return self.detection(
            f"KL divergence of an update {divergence:.3g} nat, below {self._LOW:g} for {self.patience} iterations: the "
            "policy does not change",
            f"raise {self.learning_rate(seen)} or {self.settings['kl_target']}",
        )


class GradientSpikes(Detector):
    """Gradients repeatedly jump far above their usual size, so clipping discards most of a batch."""

    event = Event.GRADIENT_SPIKES

    _JUMP, _DEVIATIONS = 20.0, 10.0
    """Factor above the median, and number of robust standard deviations above it, of a spike."""
    _COUNT, _WITHIN = 3, 10

    def __init__(self, settings: Settings) -> None:
        """Start without a problem."""
        super().__init__(settings)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._spikes: deque[float | None] = deque(maxlen=self._WITHIN)

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        norm = seen.figures.get("grad_norm")
        if norm is None:
            return None
        usual = median(self._recent) if len(self._recent) >= _WARM_UP else math.inf
        spike = norm > self._JUMP * usual and norm > usual + self._DEVIATIONS * spread(list(self._recent))
        self._recent.append(norm)
        self._spikes.append(norm if spike else None)
        spikes = [each for each in self._spikes if each is not None]
        if not self.is_due(len(spikes) >= self._COUNT):
            return None
        clip = "" if self.settings.has_replay else f"{self.settings['max_grad_norm']} or "
        return self.detection(
            f"{len(spikes)} of {len(self._spikes)} iterations with a gradient norm up to {max(spikes):.3g}, against "
            f"{usual:.3g} usually",
            f"lower {clip}{self.learning_rate(seen)}, or look for rewards that jump",
        )
