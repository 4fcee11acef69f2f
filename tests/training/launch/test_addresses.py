"""The addresses where the processes of several machines listen."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ledger_lab.errors import UserError
from ledger_lab.training.launch import World, addresses
from ledger_lab.training.launch.addresses import (
    bound_listener,
    interface_towards,
    listening_address,
    machine_addresses,
    require_private,
)

NAMES = {
    "node-0": "10.0.0.7",
    "public-0": "8.8.8.8",
    "tunnel-0": "100.64.0.9",
    "six-0": "fd00::1",
    "global-six-0": "2600::1",
    "debian": "127.0.1.1",
    "localhost": "127.0.0.1",
}
TWO_MACHINES = World(rank=0, size=2, local_rank=0, local_size=1)


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know a few names."""

    def getaddrinfo(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        address = NAMES.get(name, name)
        if not set(address) <= set("0123456789abcdef:."):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(None, None, None, "", (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "gethostname", lambda: "node-0")


def interfaces(monkeypatch: pytest.MonkeyPatch, **addresses: str) -> None:
    """Let this machine have network interfaces."""

    def found() -> dict[str, list[SimpleNamespace]]:
        return {name: [SimpleNamespace(address=address, family=socket.AF_INET)] for name, address in addresses.items()}

    monkeypatch.setattr("psutil.net_if_addrs", found)


def test_machines_listen_at_the_named_address() -> None:
    assert listening_address("node-0") == "10.0.0.7"
    assert [listening_address(name) for name in ("six-0", "10.1.1.1", "localhost", "127.0.1.1")] == [
        "fd00::1",
        "10.1.1.1",
        "127.0.0.1",
        "127.0.1.1",
    ]
    assert listening_address("debian") == "", "the others know another address by that name"


def test_a_listener_is_bound_to_the_named_address() -> None:
    with bound_listener("localhost", 0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(
            RuntimeError, match=f"the server cannot listen at localhost:{port}: EADDRINUSE: Address already"
        ):
            bound_listener("localhost", port)
    with pytest.raises(RuntimeError, match="cannot listen at nobody:1"):
        bound_listener("nobody", 1)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_listener_at_a_name_that_means_loopback_here_is_reached_by_ipv4_and_ipv6() -> None:
    with bound_listener("debian", 0) as listener:
        for family, address in ((socket.AF_INET, "127.0.1.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as client:
                client.connect((address, listener.getsockname()[1]))


@pytest.mark.parametrize("name", ["public-0", "global-six-0", "8.8.4.4", "::ffff:8.8.8.8"])
def test_public_addresses_are_refused_in_one_line_unless_the_user_allows_them(name: str) -> None:
    with pytest.raises(
        UserError, match=f"^{name} is at .*, a public address, .* pass --allow_public_address"
    ) as raised:
        require_private(["node-0", name], allow=False)
    assert "\n" not in str(raised.value)
    require_private([name], allow=True)


@pytest.mark.parametrize("name", ["debian", "0.0.0.0", "::"])
def test_all_addresses_are_public_if_one_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    interfaces(monkeypatch, lo="127.0.0.1", eth0="10.0.0.7")
    require_private([name], allow=False)
    interfaces(monkeypatch, lo="127.0.0.1", eth0="8.8.8.8")
    with pytest.raises(UserError, match=rf"{name} is at 8\.8\.8\.8, a public address"):
        require_private([name], allow=False)


def test_addresses_of_gloo_and_nccl_follow_the_named_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    interfaces(monkeypatch, lo="127.0.0.1", eth0="10.0.0.7", eth1="8.8.8.8")
    assert machine_addresses({}) == ["node-0"]
    assert machine_addresses({"NCCL_SOCKET_IFNAME": "eth1"}) == ["node-0", "8.8.8.8"]
    assert machine_addresses({"GLOO_SOCKET_IFNAME": "eth0,eth1", "NCCL_SOCKET_IFNAME": "^lo"}) == [
        "10.0.0.7",
        "8.8.8.8",
    ]


def test_a_machine_whose_name_means_loopback_listens_where_its_peers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"10.0.0.9": "10.0.0.7", "127.0.0.1": "127.0.0.1", "10.9.9.9": "192.168.0.1"}
    monkeypatch.setattr(addresses, "own_address_towards", own.__getitem__)
    interfaces(monkeypatch, lo="127.0.0.1", eth0="8.8.8.8", eth1="10.0.0.7")
    assert interface_towards(["127.0.0.1", "10.0.0.9"]) is None, "the name leads to an address that others reach"
    for name in ("debian", "unknown"):
        monkeypatch.setattr(socket, "gethostname", lambda name=name: name)
        assert interface_towards(["127.0.0.1", "", "debian", "10.9.9.9", "10.0.0.9"]) == "eth1"
        assert interface_towards(["127.0.0.1"]) is None, "all processes are on this machine"


def test_processes_of_several_machines_do_not_meet_at_a_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.runners import process_group

    monkeypatch.setenv("MASTER_ADDR", "public-0")
    monkeypatch.setenv("MASTER_PORT", "1")
    meet: Callable[[], object] = process_group.joined(TWO_MACHINES, on_gpu=False).__enter__
    with pytest.raises(UserError, match="public-0 is at"):
        meet()


def test_the_launcher_does_not_listen_at_a_public_address(tmp_path: Path) -> None:
    flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "8.8.8.8:29400"]
    command = [sys.executable, "-m", "ledger_lab.training.launch.torchrun_agent", "--nnodes", "2", *flags, "nothing.py"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ})
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: 8.8.8.8 is at 8.8.8.8, a public address") and "--allow_public_address" in line


@pytest.mark.parametrize(
    ("endpoint", "master", "local"),
    [
        *((endpoint, "", None) for endpoint in ("8.8.8.8", "public-0", "[2600::1]:29400", "[2600::1]")),
        ("", "8.8.8.8", None),
        ("localhost:0", "", "8.8.8.8"),
    ],
)
def test_an_endpoint_is_read_as_torch_reads_it(endpoint: str, master: str, local: str | None) -> None:
    from ledger_lab.training.launch.rendezvous import safe_rendezvous

    said = SimpleNamespace(
        standalone=False, rdzv_endpoint=endpoint, master_addr=master, local_addr=local, training_script_args=[]
    )
    with pytest.raises(UserError, match="a public address"), safe_rendezvous(said):  # type: ignore[arg-type]
        raise AssertionError("it would listen")
