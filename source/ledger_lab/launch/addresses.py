"""The network addresses that the processes of a training listen at."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Iterable, Mapping

from ledger_lab.errors import UserError
from ledger_lab.launch.world import World

ALLOW = "--allow_public_address"
"""Flag of programs that accept a public address."""

_LOOPBACK = "127.0.0.1"
_ALL = ""


def hub_address(master_addr: str, world: World) -> str:
    """Return the address by which the processes reach the first one.

    Args:
        master_addr: Name or address of the first machine, as the launcher says it.
        world: The processes.
    """
    return _LOOPBACK if world.one_machine else master_addr


def listening_address(address: str) -> str:
    """Return the address of this machine to listen at, so that others reach it by a name or an address.

    Args:
        address: That name or address.

    Returns:
        A numeric address. It is empty, for all interfaces, if the name means this machine here only: some systems
        resolve their own name to an address of the loopback interface.

    Raises:
        OSError: If the name is unknown.
    """
    found = _resolved(address)
    named = address in ("localhost", found)
    return found if named or not ipaddress.ip_address(found).is_loopback else _ALL


def machine_addresses(environ: Mapping[str, str]) -> list[str]:
    """Return the names or addresses that gloo, and NCCL as far as it is told, listen at on this machine.

    Args:
        environ: The environment.
    """
    named = [environ[name] for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if environ.get(name)]
    addresses = [address for names in named for interface in names.split(",") for address in _interfaces(interface)[:1]]
    return addresses if environ.get("GLOO_SOCKET_IFNAME") else [socket.gethostname(), *addresses]


def require_private(names: Iterable[str], *, allow: bool) -> None:
    """Refuse to listen at a public address.

    Args:
        names: Names or addresses to listen at. Unknown names are skipped; connecting to them reports the error.
        allow: Whether the user accepts public addresses.

    Raises:
        UserError: If one is public.
    """
    if allow:
        return
    for name in names:
        try:
            address = listening_address(name)
        except OSError:
            continue
        anywhere = not address or ipaddress.ip_address(address).is_unspecified
        public = [each for each in (_interfaces() if anywhere else [address]) if _is_public(each)]
        if public:
            raise UserError(
                f"{name} is at {public[0]}, a public address, and torch trusts everybody who can connect there: choose "
                "a private network (MASTER_ADDR, GLOO_SOCKET_IFNAME, torchrun's --rdzv-endpoint and --local-addr), or "
                f"say {ALLOW} if a firewall keeps strangers out"
            )


def _is_public(address: str) -> bool:
    """Tell whether an address is one of the internet; an IPv6 address may stand for an IPv4 address."""
    known = ipaddress.ip_address(address)
    return (getattr(known, "ipv4_mapped", None) or known).is_global


def bound_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address by which others reach this machine.

    Args:
        host: The name or address that they use.
        port: The port.

    Raises:
        RuntimeError: If that is not possible, as torch's own stores do.
    """
    try:
        address = listening_address(host)
        return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError as error:
        number = error.errno or 0
        why = f"{errno.errorcode[number]}: {os.strerror(number)}" if number in errno.errorcode else str(error)
        raise RuntimeError(f"the server cannot listen at {host}:{port}: {why}") from error


def _interfaces(named: str | None = None) -> list[str]:
    """Return the addresses of this machine, or of one of its network interfaces."""
    import psutil  # imported only for trainings on several machines

    return [
        each.address.partition("%")[0]
        for interface, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if named in (None, interface) and each.family in (socket.AF_INET, socket.AF_INET6)
    ]


def _resolved(name: str) -> str:
    """Return the first numeric address of a name, without a scope.

    Raises:
        OSError: If it is unknown.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{name!r} is no host name") from error
    return str(found[0][4][0]).partition("%")[0]
