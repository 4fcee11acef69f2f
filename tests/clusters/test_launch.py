"""Command lines and environments that start several processes."""

from __future__ import annotations

import sys

import pytest

from ledger_lab.errors import UserError
from ledger_lab.training.launch import World, read_world, requested_processes, torchrun_argv, torchrun_environ

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node-0",
    "MASTER_PORT": "1",
}


def test_the_environment_gives_the_rank_of_the_process() -> None:
    world = read_world(TORCHRUN, distributed=True)
    assert world == World(rank=3, size=4, local_rank=1, local_size=2)
    assert not world.first and not world.one_machine
    assert read_world({}, distributed=False) == read_world({"WORLD_SIZE": "1"}, distributed=False) == World()
    assert World().first and World().one_machine


@pytest.mark.parametrize(
    ("environ", "distributed", "complaint"),
    [
        ({}, True, "RANK, WORLD_SIZE, .* are not set: start with torchrun, .* or use --nproc N"),
        ({**TORCHRUN, "MASTER_PORT": ""}, True, "--distributed: MASTER_PORT is not set: start with torchrun"),
        (TORCHRUN, False, "WORLD_SIZE is 4: pass --distributed to train in that many processes, or unset it"),
        ({"WORLD_SIZE": "two"}, False, "WORLD_SIZE is two"),
        ({**TORCHRUN, "RANK": "4"}, True, "RANK 4 of WORLD_SIZE 4 .* contradict each other: let torchrun set them"),
        ({**TORCHRUN, "LOCAL_RANK": "one"}, True, "let torchrun set them"),
    ],
)
def test_flag_and_environment_must_agree(environ: dict[str, str], distributed: bool, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as raised:
        read_world(environ, distributed=distributed)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("argv", [["--task", "T", "--nproc", "2", "a.b=c"], ["--nproc=2", "--task", "T", "a.b=c"]])
def test_nproc_is_taken_out_of_the_command_line(argv: list[str]) -> None:
    assert requested_processes(argv) == (2, ["--task", "T", "a.b=c"])
    assert requested_processes(["--num_envs", "8"]) == (None, ["--num_envs", "8"])


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--nproc", "0"], "--nproc 0: must be a whole number of at least 1"),
        (["--nproc", "two"], "--nproc two: must be a whole number"),
        (["--nproc", "9" * 5000], "--nproc 9{100}: must be a whole number of at least 1, of at most 6 digits"),
        (["--nproc", "-1"], "--nproc"),
        (["--nproc"], "--nproc: expected one argument"),
        (["--nproc", "2", "--distributed"], "--distributed is for processes that another launcher starts"),
    ],
)
def test_an_invalid_number_of_processes_is_refused(argv: list[str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        requested_processes(argv)


def test_torchrun_gets_a_list_of_arguments_and_no_port() -> None:
    argv = torchrun_argv(2, "scripts/train.py", ["--task", "T; rm -rf /"])
    assert argv[:3] == [sys.executable, "-m", "ledger_lab.training.launch.torchrun_agent"]
    assert argv[-4:] == ["scripts/train.py", "--distributed", "--task", "T; rm -rf /"]
    assert "--standalone" in argv and not any("rdzv" in argument or "port" in argument for argument in argv)
    assert argv[argv.index("--nproc-per-node") + 1] == "2"


def test_processes_share_the_cores_unless_the_user_sets_threads() -> None:
    assert torchrun_environ(2, 8, {"A": "b"}) == {"A": "b", "OMP_NUM_THREADS": "4"}
    assert torchrun_environ(16, 8, {}) == {"OMP_NUM_THREADS": "1"}
    assert torchrun_environ(2, 8, {"OMP_NUM_THREADS": "7"}) == {"OMP_NUM_THREADS": "7"}
