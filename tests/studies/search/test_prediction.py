"""Predictions end what is behind every winner, and a replay counts what they would have cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_lab.studies.search.prediction import FEWEST_REACHED, ScoredTraining, is_behind, replay


def training(*successes: float, number: int = 0, reached: bool = True) -> ScoredTraining:
    """Return a training that is scored every 10 s, and that begins when the one before it ends."""
    scores = tuple((10.0 * place, success) for place, success in enumerate(successes, start=1))
    return ScoredTraining(
        trial=number, seed=1, started_s=100.0 * number, wall_s=10.0 * len(successes), reached=reached, scores=scores
    )


WINNERS = [training(0.1, 0.5, 0.9, number=number) for number in range(FEWEST_REACHED)]


def test_the_best_score_counts_until_its_time() -> None:
    one = training(0.3, 0.1, 0.5)
    assert [one.best_by(at_s) for at_s in (9.0, 10.0, 25.0, 30.0)] == [None, 0.3, 0.3, 0.5]


def test_a_training_is_behind_if_it_is_behind_every_winner() -> None:
    slow = training(0.05, 0.2, 0.3)
    assert is_behind(slow, WINNERS, 20.0)
    assert not is_behind(slow, WINNERS[1:], 20.0), "too few winners"
    assert not is_behind(slow, [*WINNERS, training(0.0, 0.1, 0.9)], 20.0), "one winner was slower at first"
    assert not is_behind(slow, WINNERS, 5.0), "nothing was scored yet"


def test_a_replay_counts_what_would_have_been_ended() -> None:
    late_winner = training(0.0, 0.2, 0.9, number=5)
    hopeless = training(0.0, 0.0, 0.0, 0.0, number=6, reached=False)
    good = training(0.2, 0.9, number=7)
    found = replay([*WINNERS, late_winner, hopeless, good])
    assert (found.trainings, found.ended, found.wrong) == (3, 2, 1)
    assert found.saved_s == pytest.approx(20.0 + 20.0)
    assert not found.is_trusted
    assert replay([*WINNERS, hopeless]).is_trusted
    assert not replay(WINNERS).is_trusted, "nothing was ended"


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), max_size=12), st.data())
def test_no_winner_among_the_known_ones_is_behind(curves: list[list[float]], data: st.DataObject) -> None:
    winners = [training(*curve, number=number) for number, curve in enumerate(curves)]
    for each in winners:
        assert not is_behind(each, winners, data.draw(st.floats(0, 60)))
