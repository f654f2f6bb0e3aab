"""The SSRF guard: which URLs may be contacted or shown, and how host names are resolved.

The other side chooses `callback_url`, `response_url`, `endpoint`, `destination_url` and `auth_url`. Unless a deployment
allows more, they may lead to public addresses only. A name is resolved once for each connection, every address of it is
checked, and the connection is pinned to a checked address. A later change of the name has no effect.
"""

import asyncio
import ipaddress
import re
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from urllib.parse import SplitResult, urlsplit

from agenttool.errors import ConfigError, RecordError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNSAFE = re.compile(r"[^\x21-\x7e]|\\")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_NUMERIC = re.compile(r"(?:^|\.)(?:0[xX][0-9a-fA-F]*|[0-9]+)\.?$")
_AMBIGUOUS = "a URL must be one that every parser reads alike; correct it"
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16"),
    )
)
"""Ranges that are not reachable from outside, although `ipaddress` calls them global, or did in older versions.

168.63.129.16 is the metadata address of a large cloud.
"""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = 0x00005EFE
"""The identifier that precedes the IPv4 address in an ISATAP tunnel address."""

MAX_AUTH_URL = 8_000
"""Browsers and mail programs truncate longer URLs."""

_PRINTABLE_URL = re.compile(rf"[\x21-\x5b\x5d-\x7e]{{1,{MAX_AUTH_URL}}}")
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

LOOKUP_TIMEOUT_S = 5.0
"""A name that is not resolved within this time counts as not resolvable now."""

SLOW_LOOKUP_S = 1.0
"""A domain counts as answering if its last lookup took no longer."""

MAX_LOOKUPS, MAX_UNPROVEN_LOOKUPS = 96, 64
MAX_LOOKUPS_PER_DOMAIN, MAX_UNPROVEN_PER_DOMAIN = 4, 2
"""How many lookups may run at a time, in all and in one domain, and of domains that have not answered quickly."""

MAX_LOOKUPS_PER_CALLER = 8
_MAX_TRACKED_DOMAINS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SsrfPolicy:
    """Which URLs may be contacted besides public ones.

    Attributes:
        networks: private ranges that are allowed, such as 127.0.0.0/8 for a runtime on this machine.
        hosts: names that are allowed whatever their addresses are.
        https_only: whether plain `http` is rejected, except for the networks and hosts above.
    """

    networks: tuple[_Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    https_only: bool = False

    @classmethod
    def parse(cls, allow: Iterable[str] = (), *, https_only: bool = False) -> "SsrfPolicy":
        """Return the policy that allows these addresses, networks such as `10.0.0.0/8`, and host names.

        Raises:
            ConfigError: an entry is none of these.
        """
        networks: list[_Network] = []
        hosts: list[str] = []
        for each in allow:
            try:
                networks.append(ipaddress.ip_network(each))
            except ValueError:
                if "/" in each or ":" in each or not each or _UNSAFE.search(each):
                    raise ConfigError(
                        f"not a network, an address or a host: {each!r}; write one such as '10.0.0.0/8'"
                    ) from None
                hosts.append(each.lower().removesuffix("."))
        return cls(networks=tuple(networks), hosts=frozenset(hosts), https_only=https_only)

    def allows(self, address: _Address) -> bool:
        """Return whether an address may be contacted."""
        return all(_is_public(each) or _is_in(each, self.networks) for each in _destinations(address))


def policy_for(urls: Iterable[str], allow: Iterable[str]) -> SsrfPolicy:
    """Return which addresses requests may lead to: public ones, those allowed, and those that the URLs spell out.

    The owner writes these URLs into the settings. If all of them use https, other URLs must, too.

    Raises:
        ConfigError: an entry of `allow` is invalid.
    """
    found = [urlsplit(each) for each in urls]
    hosts = [each.hostname or "" for each in found]
    own = [each for each in hosts if address_in(each) is not None]
    if "localhost" in hosts:
        own += "127.0.0.0/8", "::1/128", "localhost"
    return SsrfPolicy.parse((*allow, *own), https_only=all(each.scheme == "https" for each in found))


def check_url(url: str, policy: SsrfPolicy) -> None:
    """Reject a URL that is ambiguous or may not be contacted; a host name is checked when it is resolved.

    Raises:
        RecordError: says what is wrong, without the URL itself, because callback URLs are secrets.
    """
    if _UNSAFE.search(url):
        raise RecordError(_AMBIGUOUS)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise RecordError(_AMBIGUOUS) from None
    _check_target(parts.scheme, parts.netloc, policy)


@lru_cache(maxsize=4096)
def _check_target(scheme: str, netloc: str, policy: SsrfPolicy) -> None:
    """Check the scheme and authority of a URL; cached, because many callbacks go to few servers."""
    parts = SplitResult(scheme, netloc, "", "", "")
    try:
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        raise RecordError(_AMBIGUOUS) from None
    if port == 0 or "%" in netloc:  # an invalid port, or a host that parsers decode differently
        raise RecordError(_AMBIGUOUS)
    if scheme not in ("http", "https"):
        raise RecordError("a URL must have the scheme http or https; use one of them")
    if not host or "@" in netloc:
        raise RecordError("a URL must name a host, and no user; correct it")
    address = address_in(host)
    is_named = host in policy.hosts or (address is not None and any(address in each for each in policy.networks))
    if address is None and not _HOST.fullmatch(host):
        raise RecordError(_AMBIGUOUS)
    if address is None and _NUMERIC.search(host):
        raise RecordError("a URL must spell an address in full, such as 203.0.113.7; correct it")
    if policy.https_only and scheme == "http" and not is_named:
        raise RecordError("a URL must use https here; use it, or have the host allowed")
    if address is not None and not policy.allows(address):
        raise RecordError("a URL must lead to a public address; use one, or have the address allowed")


def auth_url_error(url: str, *, allows_http: bool) -> str | None:
    """Return why a person must not be sent to an authorization page, without the URL itself; None if they may be.

    Args:
        url: the page, as a tool server gave it.
        allows_http: whether a page on this machine may do without TLS.
    """
    if not _PRINTABLE_URL.fullmatch(url):
        return f"auth_url must have at most {MAX_AUTH_URL} characters, all printable ASCII; encode the others"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "auth_url must be a URL; correct it"
    if not parts.hostname or "@" in parts.netloc:
        return "auth_url must name a host, and no user, because people read the user as the host; correct it"
    if parts.scheme == "https" or (parts.scheme == "http" and allows_http and parts.hostname in _LOOPBACK_HOSTS):
        return None
    return "auth_url must use https; correct it"


async def resolve(host: str, policy: SsrfPolicy, resolver: "Resolver", caller: str = "") -> list[str]:
    """Return the addresses to connect to, at least one, in the order in which to try them.

    Raises:
        RecordError: the name has an address that may not be contacted.
        OSError: there is no such name, or the lookup failed.
    """
    if address_in(host) is not None:
        if not policy.allows(ipaddress.ip_address(host)):
            raise RecordError("a URL must lead to a public address; use one, or have the address allowed")
        return [host]
    addresses = await resolver.addresses_of(host, caller)
    if host.lower().removesuffix(".") not in policy.hosts:
        for text in addresses:
            if not policy.allows(ipaddress.ip_address(text.partition("%")[0])):
                raise RecordError("a URL must lead to public addresses; use another, or have the host allowed")
    return addresses


@lru_cache(maxsize=4096)
def address_in(host: str) -> _Address | None:
    """Return the IP address of a host that is written as an address; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_public(address: _Address) -> bool:
    is_public = address.is_global and not address.is_multicast and not address.is_reserved
    return is_public and not _is_in(address, _NOT_PUBLIC)


def _is_in(address: _Address, networks: tuple[_Network, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def _destinations(address: _Address) -> tuple[_Address, ...]:
    """Return the addresses that packets may reach; some IPv6 addresses embed an IPv4 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    embedded = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if embedded is None and address in _NAT64:
        embedded = last
    if embedded is None and (int(address) >> 32) & 0xFDFFFFFF == _ISATAP:
        return address, last
    return (embedded or address,)


@dataclass(slots=True)
class _Lookup:
    domain: str
    caller: str
    addresses: "asyncio.Future[list[str]]"
    started: float = field(default_factory=time.monotonic)


class Resolver:
    """Resolves host names, each in one thread of its own however many requests ask for it.

    The owner of a domain can make its lookups hang, and a thread that hangs cannot be stopped. So lookups are limited
    by caller and by domain, and domains whose last lookup was quick have reserved room. A thread counts until it ends.
    A thread pool would delay the end of the program, and the loop's own pool has other work.
    """

    def __init__(self) -> None:
        self._lookups: dict[str, _Lookup] = {}
        self._answering: OrderedDict[str, None] = OrderedDict()

    async def addresses_of(self, host: str, caller: str = "") -> list[str]:
        """Return the addresses of a name.

        Raises:
            OSError: it has none, the lookup failed, or too many lookups are running; a later try may succeed.
            UnicodeError: it is not a valid name.
        """
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._start(host, caller)
        async with asyncio.timeout(LOOKUP_TIMEOUT_S):
            return await asyncio.shield(lookup.addresses)

    def _start(self, host: str, caller: str) -> _Lookup:
        if not self._has_room(_domain_of(host), caller):
            raise OSError("too many host names are being resolved; try again later")
        loop = asyncio.get_running_loop()
        lookup = _Lookup(_domain_of(host), caller, loop.create_future())
        arguments = (host, lookup.addresses, loop)
        try:
            threading.Thread(target=_look_up, args=arguments, name="agenttool-resolver", daemon=True).start()
        except RuntimeError as error:
            raise OSError("no thread is available to resolve a host name; try again later") from error
        lookup.addresses.add_done_callback(lambda _: self._end(host))
        self._lookups[host] = lookup
        return lookup

    def _has_room(self, domain: str, caller: str) -> bool:
        running = self._lookups.values()
        is_answering = domain in self._answering
        in_domain = sum(lookup.domain == domain for lookup in running)
        unproven = sum(lookup.domain not in self._answering for lookup in running)
        own = sum(lookup.caller == caller for lookup in running) if caller else 0
        return (
            len(running) < MAX_LOOKUPS
            and in_domain < (MAX_LOOKUPS_PER_DOMAIN if is_answering else MAX_UNPROVEN_PER_DOMAIN)
            and (is_answering or unproven < MAX_UNPROVEN_LOOKUPS)
            and own < MAX_LOOKUPS_PER_CALLER
        )

    def _end(self, host: str) -> None:
        """Record whether the last lookup of a domain was quick."""
        lookup = self._lookups.pop(host)
        self._answering.pop(lookup.domain, None)
        if time.monotonic() - lookup.started <= SLOW_LOOKUP_S:
            self._answering[lookup.domain] = None
        if len(self._answering) > _MAX_TRACKED_DOMAINS:
            self._answering.popitem(last=False)
        if not lookup.addresses.cancelled():
            lookup.addresses.exception()  # marks it as retrieved: the request may have been canceled


def _look_up(host: str, lookup: "asyncio.Future[list[str]]", loop: asyncio.AbstractEventLoop) -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        complete = partial(lookup.set_result, [str(entry[4][0]) for entry in found])
    except (OSError, UnicodeError) as error:
        complete = partial(lookup.set_exception, error)
    with suppress(RuntimeError):  # the event loop is closed, and no request waits any more
        loop.call_soon_threadsafe(complete)


def _domain_of(host: str) -> str:
    return ".".join(host.lower().rstrip(".").split(".")[-2:])
