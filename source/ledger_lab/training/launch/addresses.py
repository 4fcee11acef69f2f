"""Network addresses where the processes of a training listen."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Iterable, Mapping

from ledger_lab.errors import UserError

ALLOW = "--allow_public_address"
"""Flag of programs that accept a public address."""

_ALL = ""


def listening_address(address: str) -> str:
    """Return the address where this machine must listen so that others reach it by a name or an address.

    Args:
        address: The name or address.

    Returns:
        A numeric address. It is empty, for all interfaces, if this machine resolves the name to its loopback
        interface, as some systems do with their own name.

    Raises:
        OSError: If the name is unknown.
    """
    found = _resolved(address)
    named = address in ("localhost", found)
    return found if named or not ipaddress.ip_address(found).is_loopback else _ALL


def machine_addresses(environ: Mapping[str, str]) -> list[str]:
    """Return the names or addresses of this machine where gloo and NCCL listen, as far as the environment sets them.

    Args:
        environ: The environment.
    """
    named = [environ[name] for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if environ.get(name)]
    addresses = [address for names in named for interface in names.split(",") for address in _interfaces(interface)[:1]]
    return addresses if environ.get("GLOO_SOCKET_IFNAME") else [socket.gethostname(), *addresses]


def own_address_towards(peer: str) -> str:
    """Return the address of this machine from which it sends to another one. Nothing is sent.

    Args:
        peer: Name or address of the other machine.

    Raises:
        OSError: If the name is unknown, or no network leads there.
    """
    address = _resolved(peer)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # the port of the discard protocol; a datagram socket only looks up the route
        return str(probe.getsockname()[0]).partition("%")[0]


def interface_towards(peers: Iterable[str]) -> str | None:
    """Return the network interface that leads to other machines, where this machine's own name does not.

    gloo listens at the address of the machine's own name. Debian writes ``127.0.1.1`` beside this name into
    ``/etc/hosts``, and no other machine reaches that.

    Args:
        peers: Addresses of the processes, this one's among them. Other processes told them, so what is no address is
            skipped, and no name is looked up.

    Returns:
        The name of the interface. ``None`` if the own name leads to another address than loopback, or no interface
        leads to another machine.
    """
    import psutil  # imported only for trainings on several machines

    try:
        if not ipaddress.ip_address(_resolved(socket.gethostname())).is_loopback:
            return None
    except OSError:
        pass  # a name that is unknown leads nowhere
    known = {
        each.address.partition("%")[0]: interface
        for interface, addresses in psutil.net_if_addrs().items()
        for each in addresses
    }
    for peer in peers:
        try:
            own = own_address_towards(str(ipaddress.ip_address(peer)))
        except (OSError, ValueError):
            continue
        if own in known and not ipaddress.ip_address(own).is_loopback:  # a loopback address leads to this machine
            return known[own]
    return None


def require_private(names: Iterable[str], *, allow: bool) -> None:
    """Refuse to listen at a public address.

    Args:
        names: Names or addresses to listen at. Unknown names are skipped; a later connection reports the error.
        allow: Whether the user accepts public addresses.

    Raises:
        UserError: If an address is public.
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
                f"{name} is at {public[0]}, a public address, and torch trusts every program that can connect to it: "
                "choose a private network (MASTER_ADDR, GLOO_SOCKET_IFNAME, torchrun's --rdzv-endpoint and "
                f"--local-addr), or pass {ALLOW} if a firewall protects the address"
            )


def _is_public(address: str) -> bool:
    """Tell whether an address is one of the internet; an IPv6 address may stand for an IPv4 address."""
    known = ipaddress.ip_address(address)
    return (getattr(known, "ipv4_mapped", None) or known).is_global


def bound_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address where others reach this machine.

    Args:
        host: The name or address that others use.
        port: The port.

    Raises:
        RuntimeError: If the socket can't listen; torch's own stores raise the same type.
    """
    try:
        address = listening_address(host)
        if address == _ALL and socket.has_dualstack_ipv6():  # others may know an IPv6 address by that name
            return socket.create_server((address, port), family=socket.AF_INET6, dualstack_ipv6=True)
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
        OSError: If the name is unknown.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{name!r} is not a host name") from error
    return str(found[0][4][0]).partition("%")[0]
