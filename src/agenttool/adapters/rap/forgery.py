"""Where a stranger's URL may lead: a guard against requests that somebody else would have us make.

A `callback_url`, a `response_url`, an `endpoint` and a `destination_url` are all chosen by the other side. Unless a
deployment allows more, they lead to public addresses only. A name is resolved once per connection, each address it has
is judged, and the connection goes to one that was: whatever the name says a moment later changes nothing.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from agenttool.adapters.rap.names import Names
from agenttool.errors import ConfigError, RecordError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ODD = re.compile(r"[^\x21-\x7e]|\\")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_NUMERIC = re.compile(r"(?:^|\.)(?:0[xX][0-9a-fA-F]*|[0-9]+)\.?$")
_UNCLEAR = "a URL must be one that every reader reads alike; correct it"
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16"),
    )
)
"""Ranges that nobody reaches from outside, and that the library takes for public ones, or did until lately.

One of them is a single address: what a large cloud tells its own machines.
"""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = 0x00005EFE
"""What stands before an IPv4 address in the second half of an address that leads through a tunnel of its site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which URLs may be contacted besides public ones.

    Attributes:
        networks: private ranges that are allowed, such as 127.0.0.0/8 for a runtime on this machine.
        hosts: names that are allowed wherever they lead.
        https_only: whether plain `http` is refused, but for what is allowed above.
    """

    networks: tuple[_Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    https_only: bool = False

    @classmethod
    def of(cls, allow: Iterable[str] = (), *, https_only: bool = False) -> "Reach":
        """Read what a deployment allows: addresses, networks such as `10.0.0.0/8`, and names of hosts.

        Raises:
            ConfigError: one of them is none of these.
        """
        networks: list[_Network] = []
        hosts: list[str] = []
        for each in allow:
            try:
                networks.append(ipaddress.ip_network(each))
            except ValueError:
                if "/" in each or ":" in each or not each or _ODD.search(each):
                    raise ConfigError(
                        f"not a network, an address or a host: {each!r}; write one such as '10.0.0.0/8'"
                    ) from None
                hosts.append(each.lower().removesuffix("."))
        return cls(networks=tuple(networks), hosts=frozenset(hosts), https_only=https_only)

    def allows(self, address: _Address) -> bool:
        """Tell whether an address may be contacted."""
        return all(_is_public(each) or _is_in(each, self.networks) for each in _ends(address))


def check_url(url: str, reach: Reach) -> None:
    """Refuse a URL that could lead anywhere but over HTTP to where it seems to; a name is judged when it is resolved.

    Raises:
        RecordError: says what is wrong with it, and never repeats it: a callback URL is a secret.
    """
    if _ODD.search(url):
        raise RecordError(_UNCLEAR)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise RecordError(_UNCLEAR) from None
    _check_place(parts.scheme, parts.netloc, reach)


@lru_cache(maxsize=4096)
def _check_place(scheme: str, netloc: str, reach: Reach) -> None:
    """Judge where a URL leads; callbacks come in thousands, and lead to a few places."""
    parts = SplitResult(scheme, netloc, "", "", "")
    try:
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        raise RecordError(_UNCLEAR) from None
    if port == 0 or "%" in netloc:  # neither a port that there is, nor a host that all spell alike
        raise RecordError(_UNCLEAR)
    if scheme not in ("http", "https"):
        raise RecordError("a URL must be of the scheme http or https; use another")
    if not host or "@" in netloc:
        raise RecordError("a URL must name a host, and no user; correct it")
    address = _literal(host)
    named = host in reach.hosts or (address is not None and any(address in each for each in reach.networks))
    if address is None and not _HOST.fullmatch(host):
        raise RecordError(_UNCLEAR)
    if address is None and _NUMERIC.search(host):
        raise RecordError("a URL must spell an address in full, such as 203.0.113.7; correct it")
    if reach.https_only and scheme == "http" and not named:
        raise RecordError("a URL must use https here; use it, or have the host allowed")
    if address is not None and not reach.allows(address):
        raise RecordError("a URL must lead to a public address; use one, or have the address allowed")


async def resolve(host: str, reach: Reach, names: Names, caller: str = "") -> list[str]:
    """Find the addresses to connect to, in the order in which to try them; there is at least one.

    Raises:
        RecordError: the name has an address that may not be contacted.
        OSError: there is no such name, or nobody could be asked.
    """
    if _literal(host) is not None:
        if not reach.allows(ipaddress.ip_address(host)):
            raise RecordError("a URL must lead to a public address; use one, or have the address allowed")
        return [host]
    addresses = await names.addresses_of(host, caller)
    if host.lower().removesuffix(".") not in reach.hosts:
        for text in addresses:
            if not reach.allows(ipaddress.ip_address(text.partition("%")[0])):
                raise RecordError("a URL must lead to public addresses; use another, or have the host allowed")
    return addresses


def is_address(host: str) -> bool:
    """Tell whether a host is spelled as an address, so that there is nothing to resolve."""
    return _literal(host) is not None


@lru_cache(maxsize=4096)
def _literal(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_public(address: _Address) -> bool:
    is_public = address.is_global and not address.is_multicast and not address.is_reserved
    return is_public and not _is_in(address, _NOT_PUBLIC)


def _is_in(address: _Address, networks: tuple[_Network, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def _ends(address: _Address) -> tuple[_Address, ...]:
    """Give the addresses that packets may end at: some IPv6 addresses are IPv4 ones in disguise, and some may be."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    inside = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inside is None and address in _NAT64:
        inside = last
    if inside is None and (int(address) >> 32) & 0xFDFFFFFF == _ISATAP:
        return address, last
    return (inside or address,)
