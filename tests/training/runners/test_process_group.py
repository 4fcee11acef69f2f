"""Processes of a training connect and exchange values."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.training.launch import World
from tests.fakes.launching import two_processes

ROOT = Path(__file__).parents[3]
HOST = socket.gethostname()


def test_processes_exchange_values(tmp_path: Path) -> None:
    ended = two_processes("group", tmp_path)
    assert [each.returncode for each in ended] == [0, 0], ended
    first, second = (json.loads(each.stdout) for each in ended)
    for heard in (first, second):
        said = [{"rank": r, "return": None, "long": "x" * 1000 * r, "exact": 0.1 + 0.2} for r in (0, 1)]
        assert heard["gather"] == said
        assert heard["any"] == [False, True, True]
        assert heard["all"] == [False, False, True]
        assert heard["first"] == "of 0"
        assert heard["agree"] == heard["rank"]
        assert heard["not the same"].startswith(f"--seed is 0 on rank 0 ({HOST}) and 1 on rank 1 ({HOST}): start all")
        assert heard["file"] == [heard is first, True], "the others have a copy of their own"
        assert heard["differs"] == f"optimizer.0.step differs between rank 0 on {HOST} and rank 1 on {HOST}"
        assert heard["moments True"] == heard["moments False"] == [True, True, 10]
        assert heard["average gradient"] == [2.5, 15.0]
        assert heard["largest"] == [1, 0]
        assert heard["metered"] is True
        assert heard["metered later"] == ["evaluate"], "waiting outside the training loop is none of its time"
    complaints = {name: (first[name], second[name]) for name in first if name.startswith("refused")}
    assert complaints == {
        "refused other": (f"rank 1 on {HOST}: no room", 2),
        "refused both": ("no room", 2),
        "refused first": ("no room", 2),
    }


@pytest.mark.thorough  # tests/training/test_distributed.py trains with RSL-RL
def test_every_library_trains_one_policy_in_several_processes(tmp_path: Path) -> None:
    ended = two_processes("toy_ranks", tmp_path)
    assert [each.returncode for each in ended] == [0, 0], ended[0].stderr + ended[1].stderr
    first, second = (json.loads(each.stdout.splitlines()[-1]) for each in ended)
    assert first.keys() == set(LIBRARIES)
    for library, told in first.items():
        other = second[library]
        assert told["iterations"] == other["iterations"] == [1, 2, 3], "all stop together"
        assert told["learning_rate"] == other["learning_rate"]
        assert told["actions"] != other["actions"], "each has a seed of its own"
        assert (told["seeded"], other["seeded"]) == (5, 6), "the library adds no rank of its own"
        often = 5 if library == "rl_games" else 1  # which takes every sample once more in each of its epochs
        seen = [often * sum(pair) for pair in zip(told["observed"], other["observed"], strict=True)]
        assert told["normalized_by"] == pytest.approx(seen, rel=1e-4), "the samples of both"
        assert told["synchronized"] and other["synchronized"]
        for each in (told, other):
            assert each["gradients"] == pytest.approx(each["by_autograd"], rel=1e-5), "before they are clipped"
        assert told["gradients"][1] != other["gradients"][1] and told["gradients"][2] == other["gradients"][2]


def test_a_port_in_use_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.runners.process_group import _meet

    with socket.create_server(("", 0)) as server:
        monkeypatch.setenv("MASTER_ADDR", "localhost")
        monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
        with pytest.raises(UserError, match=r"MASTER_PORT \d+ is in use on this machine: choose another port, or use"):
            _meet(World(rank=0, size=2, local_rank=0, local_size=2))


def test_a_missing_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.runners import process_group

    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.setattr(process_group, "_JOIN_S", 1.0)
    with pytest.raises(UserError, match="of 3 processes, rank 1, 2 did not connect within 1 s"):
        process_group._meet(World(rank=0, size=3, local_rank=0, local_size=3))


def test_a_process_that_never_connects_does_not_block_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    from ledger_lab.training.runners import process_group

    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.setattr(process_group, "_CONNECT_S", 1.0)
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(variable, "lo")  # as for processes of one machine; the test gives it back

    def come() -> None:
        store = dist.TCPStore("localhost", port, is_master=False, timeout=timedelta(seconds=60))
        dist.PrefixStore("ledger_lab/0", store).set("joined/1", "")

    other = threading.Thread(target=come, daemon=True)
    other.start()
    began_s = time.monotonic()
    with (
        pytest.raises(UserError, match="do not reach each other with gloo: .*: set GLOO_SOCKET_IFNAME to"),
        process_group.joined(World(rank=0, size=2, local_rank=0, local_size=2), on_gpu=False),
    ):
        pass
    assert time.monotonic() - began_s < 60
    other.join()


def test_a_collective_that_never_returns_names_the_variable_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.runners import process_group

    group = process_group.ProcessGroup(World(rank=0, size=2, local_rank=0, local_size=2), ["a", "b"], Path())
    connecting = threading.Event()  # as NCCL does within its first collective, out of reach of any question
    monkeypatch.setattr(process_group.dist, "all_reduce", lambda *_, **__: connecting.wait(30))
    monkeypatch.setattr(process_group, "_PROBE_S", 0.1)
    at_exit: list[tuple[object, ...]] = []
    monkeypatch.setattr(process_group.atexit, "register", lambda *call: at_exit.append(call))
    with pytest.raises(UserError, match=r"with gloo: no answer within 0.1 s: set GLOO_SOCKET_IFNAME to"):
        group.try_out("cpu")
    assert at_exit == [(os._exit, 2)], "the process goes, whatever hangs in it"
    connecting.set()


def test_waiting_for_other_processes_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.runners import process_group

    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.setattr(process_group, "_JOIN_S", 30.0)
    began_s = time.monotonic()
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        process_group._meet(World(rank=0, size=2, local_rank=0, local_size=2))
    assert time.monotonic() - began_s < 15


def test_a_difference_in_one_process_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training import ranks
    from ledger_lab.training.runners.process_group import ProcessGroup

    group = ProcessGroup(World(rank=0, size=2, local_rank=0, local_size=1), ["a", "b"], Path())

    def differs(ours: dict[str, object], theirs: dict[str, object]) -> str:
        monkeypatch.setattr(group, "gather", lambda mine: [{**mine, **ours}, {**mine, **theirs}])
        with pytest.raises(UserError) as raised:
            ranks.require_same(group, {"--task": "T"})
        return str(raised.value)

    assert differs({}, {"--new": 1}).startswith("--new is missing on rank 0 (a) and 1 on rank 1 (b): start all")
    assert differs({"--old": None}, {}).startswith("--old is None on rank 0 (a) and missing on rank 1 (b): start all")
    assert "same request, code, packages" in differs({"the source of a": "1"}, {"the source of a": "2"})
    monkeypatch.setattr(group, "gather", lambda mine: [mine, dict(mine)])
    ranks.require_same(group, {"--task": "T"})
