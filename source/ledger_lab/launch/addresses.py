"""The network addresses that the processes of a training listen at."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterable

from ledger_lab.errors import UserError
from ledger_lab.launch.world import World

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
    found = _resolved(address)[0]
    named = address in ("localhost", found)
    return found if named or not ipaddress.ip_address(found).is_loopback else _ALL


def require_private(names: Iterable[str], allow: bool) -> None:
    """Refuse to listen where the whole internet may connect.

    Args:
        names: Names or addresses that are listened at; unknown names are left to those who connect.
        allow: Whether the user accepts public addresses.

    Raises:
        UserError: If one is public.
    """
    if allow:
        return
    for name in names:
        try:
            public = [found for found in _resolved(name) if ipaddress.ip_address(found).is_global]
        except OSError:
            continue
        if public:
            raise UserError(
                f"{name} is {public[0]}, a public address: torch trusts everybody who can connect there: choose a "
                "private network (MASTER_ADDR, torchrun's --rdzv-endpoint and --local-addr, GLOO_SOCKET_IFNAME), or "
                "say --allow_public_address if a firewall keeps strangers out"
            )


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
        name = errno.errorcode.get(error.errno or 0, "OSError")
        raise RuntimeError(f"{name}: the server cannot listen at {host}:{port}: {error.strerror or error}") from error


def _resolved(name: str) -> list[str]:
    """Return the numeric addresses of a name, without scopes.

    Raises:
        OSError: If it is unknown.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{name!r} is no host name") from error
    return [str(each[4][0]).partition("%")[0] for each in found]
