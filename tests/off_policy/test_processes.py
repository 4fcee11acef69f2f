"""Two processes learn one policy, each from a replay memory of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.fakes.launching import two_processes

ROOT = Path(__file__).parents[2]


def test_processes_learn_one_policy_from_replay_memories_of_their_own(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ended = two_processes("replay_ranks", tmp_path, PYTHONPATH=path)
    assert [each.returncode for each in ended] == [0, 0], ended[0].stderr + ended[1].stderr
    first, second = (json.loads(each.stdout.splitlines()[-1]) for each in ended)
    room = first.pop("too large"), second.pop("too large")
    assert room == ({"said": "there is room for 21 steps"},) * 2, "by the least free memory, of which each has half"
    for case, told in first.items():
        other = second[case]
        begun, resumed, *after = told["hashes"]
        assert begun == resumed and len({begun, *after}) == 4, "each iteration with updates changes the learner"
        assert other["hashes"] == told["hashes"], "networks, targets, optimizers, normalizers"
        assert told["coefficient"] == other["coefficient"]
        assert told["held"] != other["held"], "each draws from environments of its own"
        assert {"value_loss", "policy_loss"} <= set(told["learned"]), "after the replay memories have refilled"
    updates = 32 - 20
    assert first["sac"]["normalized_by"] == 1 + 2 * 2 * updates * 16, "batches, and what follows them, of both"
    one, two = (each["td3"]["noise"] for each in (first, second))
    assert len({*one, *two}) == 16 and sorted([*one, *two])[0] == pytest.approx(0.1), "one range for all environments"
