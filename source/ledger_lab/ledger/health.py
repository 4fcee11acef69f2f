"""The closed list of health events."""

from __future__ import annotations

from enum import StrEnum


class Event(StrEnum):
    """What can go wrong in a training."""

    meaning: str
    """The event in a few words."""

    def __new__(cls, name: str, meaning: str) -> Event:
        """Make an event from its name and its meaning."""
        event = str.__new__(cls, name)
        event._value_, event.meaning = name, meaning
        return event

    NON_FINITE = "non_finite", "a training metric is NaN or infinite"
    VALUE_LOSS_EXPLOSION = (
        "value_loss_explosion",
        "the value loss is many times larger than the squared returns",
    )
    ENTROPY_COLLAPSE = "entropy_collapse", "the policy stops exploring before it has learned the task"
    KL_OUT_OF_RANGE = "kl_out_of_range", "updates change the policy far too much, or not at all"
    GRADIENT_SPIKES = "gradient_spikes", "the gradient norm jumps repeatedly"
    SLOWDOWN = "slowdown", "the number of environment steps per second falls"
    HOST_MEMORY_GROWTH = "host_memory_growth", "host memory grows steadily"
    DEVICE_MEMORY_GROWTH = "device_memory_growth", "device memory grows steadily"
    TERMINATION_TAKEOVER = (
        "termination_takeover",
        "one termination ends nearly all training episodes, and held-out success does not rise",
    )
    REWARD_HACKING = "reward_hacking", "the training return rises while held-out success falls"
    NO_CONVERGENCE = (
        "no_convergence",
        "at the present pace, held-out success will not reach the target within max_iterations",
    )
