"""Two processes that tell each other things, and print what they heard as one line of JSON.

Usage: ``python tests/fakes/group.py DIRECTORY``, with torchrun's variables in the environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from ledger_lab.errors import UserError
from ledger_lab.ledger.endings import RanksDifferError
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.training.launch import read_world
from ledger_lab.training.ranks import require_same
from ledger_lab.training.runners.collectives import (
    average_gradient,
    largest_of_all_processes,
    merged_moments,
    metered_collectives,
)
from ledger_lab.training.runners.process_group import joined


def main() -> None:
    """Say everything that can be said."""
    world, folder = read_world(os.environ, distributed=True), Path(sys.argv[1])
    me = world.rank
    heard: dict[str, object] = {"rank": me}
    with joined(world, on_gpu=False) as group:
        group.try_out("cpu")
        heard["gather"] = group.gather({"rank": me, "return": None, "long": "x" * 1000 * me, "exact": 0.1 + 0.2})
        heard["any"] = [group.any(False), group.any(me == 1), group.any(True)]
        heard["all"] = [group.all(False), group.all(me == 1), group.all(True)]
        heard["first"] = group.first(lambda: f"of {me}")
        heard["agree"] = group.agree(lambda: me)
        for name, complains in (("other", me == 1), ("both", True), ("first", me == 0)):

            def check(complains: bool = complains) -> None:
                if complains:
                    raise UserError("no room")

            try:
                group.agree(check)
            except UserError as error:
                heard[f"refused {name}"] = str(error)
            except SystemExit as ending:
                heard[f"refused {name}"] = ending.code
        for asked in ({"--task": "a"}, {"--task": "a", "--seed": me}):
            try:
                require_same(group, asked)
            except UserError as error:
                heard["not the same"] = str(error)
        policy = folder / "policy.bin"
        if me == 0:
            policy.write_bytes(bytes(range(256)) * 100)
        copy = group.file(policy)
        heard["file"] = [copy == policy, copy.read_bytes() == bytes(range(256)) * 100]
        state = {"actor": {"w": torch.ones(3)}, "optimizer": [{"step": torch.tensor(3.0)}], "rate": 0.1}
        group.require_equal(state)
        state["optimizer"][0]["step"] += 2e-7 * me
        try:
            group.require_equal(state)
        except RanksDifferError as error:
            heard["differs"] = str(error)
        samples = torch.arange(20, dtype=torch.float64).reshape(10, 2).square()
        mine = samples[5 * me : 5 * me + 5]
        for unbiased in (True, False):
            own = mine.mean(dim=0), mine.var(dim=0, unbiased=unbiased), len(mine)
            mean, variance, count = merged_moments(*own, correction=int(unbiased))
            heard[f"moments {unbiased}"] = [
                torch.allclose(mean, samples.mean(dim=0), rtol=1e-12),
                torch.allclose(variance, samples.var(dim=0, unbiased=unbiased), rtol=1e-12),
                count,
            ]
        weight = torch.zeros(2, requires_grad=True)
        (weight * torch.tensor([2.0 + me, 10.0 * (me + 1)])).sum().backward()
        average_gradient(weight)
        assert weight.grad is not None
        heard["average gradient"] = weight.grad.tolist()
        heard["largest"] = largest_of_all_processes(torch.tensor([me, -me])).tolist()
        clock = PhaseClock(0, base=Phase.UNATTRIBUTED)
        with metered_collectives(clock):
            dist.all_reduce(torch.ones(1))
        clock.set_base(Phase.EVALUATE)
        spent, _ = clock.flush()
        heard["metered"] = spent["synchronize"] > 0
        with metered_collectives(clock):
            dist.all_reduce(torch.ones(1))
        heard["metered later"] = sorted(clock.flush()[0])
    print(json.dumps(heard), flush=True)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        with contextlib.suppress(OSError):
            print(error, file=sys.stderr)
        sys.exit(2)
