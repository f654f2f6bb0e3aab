"""URLs: parse a text into its real host, and match it with the patterns of rules.

As for paths, a deny or an ask matches if any reading matches, an allow only if every reading does. No allow covers a
URL that browsers and libraries parse differently.
"""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from agenttool.policy.paths import decodings, split
from agenttool.policy.wildcards import Depth, Step, patterns_overlap, step

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
_NUMBER = re.compile(r"^(?:0[xX][0-9a-fA-F]*|[0-9]+)$")
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_LABEL = re.compile(r"^[a-z0-9_-]+$")
# Older and newer rules for names in Unicode lead to different hosts: `fa\u00df.de` is `fass.de` to some.
_DEVIATIONS = re.compile(r"[\u00df\u1e9e\u03c2\u200c\u200d]")


class Url(NamedTuple):
    """A parsed URL; `host` is empty if the URL cannot be parsed.

    Attributes:
        is_plain: whether every reader would agree on it: no user name, nothing encoded in odd places.
        paths: the readings of its path, as steps.
    """

    text: str
    scheme: str = ""
    host: str = ""
    port: int | None = None
    paths: tuple[tuple[str, ...], ...] = ()
    is_plain: bool = False


def url_of(text: str) -> Url:
    """Read an address; one that cannot be read has no host."""
    if _ODD.search(text):
        return Url(text=text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return Url(text=text)
    scheme = parts.scheme.lower()
    host = canonical_host(parts.hostname or "")
    # The path as written and as decoded, however often it was encoded; none if that never ends.
    readings = decodings(parts.path)
    if not scheme or host is None or not readings or any(map(_ODD.search, readings)):
        return Url(text=text)
    return Url(
        text=text,
        scheme=scheme,
        host=host,
        port=port if port is not None else _PORTS.get(scheme),
        paths=tuple(dict.fromkeys(map(split, readings))),
        is_plain="@" not in parts.netloc,
    )


def canonical_host(host: str) -> str | None:
    """Return the one spelling of a host: lower case, no last dot, Punycode, a plain IP; None if it has none."""
    if not host or "%" in host or _DEVIATIONS.search(host):
        return None
    if ":" in host:
        return _ip(host)
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.match(labels[-1]):
        return _odd_ip(labels)
    return name if all(map(_LABEL.match, labels)) else None


def _ip(text: str) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _odd_ip(labels: list[str]) -> str | None:
    """Read `127.1`, `0x7f000001` and `017700000001` as system libraries do: the last number fills what is left."""
    try:
        numbers = [int(label, 16 if label[:2].lower() == "0x" else 8 if label[0] == "0" else 10) for label in labels]
    except (ValueError, IndexError):
        return None
    *heads, last = numbers
    if len(heads) > 3 or any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):  # noqa: PLR2004 -- four bytes
        return None
    value = last + sum(head << (24 - 8 * index) for index, head in enumerate(heads))
    return str(ipaddress.IPv4Address(value))


_ANY_PORT = 0


class UrlPattern(NamedTuple):
    """A pattern of a rule: `https://api.example.com/v1/**`, `*.example.com`, `http://127.0.0.1:8080`.

    Without a scheme a deny means any and an allow means https. Without a port a deny means any and an allow means the
    scheme's own; the port `*` is any. Without a path it is the whole host; a path without wildcards reaches everything
    below.
    """

    text: str
    scheme: str
    host: tuple[Step, ...]
    port: int | None
    path: tuple[Step, ...]

    def hits(self, url: Url) -> bool:
        """Return whether a deny or an ask must assume that an address falls under this."""
        if not url.host:
            return True
        same_place = self.scheme in ("", url.scheme) and self.port in (None, _ANY_PORT, url.port)
        return (
            same_place
            and self._has_host(url)
            and any(patterns_overlap((*self.path, Depth.ANY), steps) for steps in url.paths)
        )

    def covers(self, url: Url) -> bool:
        """Return whether an allow may be sure of an address."""
        if not url.host or not url.is_plain or not self._has_host(url):
            return False
        scheme = self.scheme or "https"
        port = url.port if self.port == _ANY_PORT else self.port if self.port is not None else _PORTS.get(scheme)
        is_plain = all(isinstance(each, str) for each in self.path)
        path = (*self.path, Depth.ANY) if is_plain else self.path
        return (scheme, port) == (url.scheme, url.port) and all(patterns_overlap(path, steps) for steps in url.paths)

    def _has_host(self, url: Url) -> bool:
        return patterns_overlap(self.host, tuple(reversed(url.host.split("."))) if ":" not in url.host else (url.host,))


def url_pattern(text: str) -> UrlPattern:
    """Read a pattern of a rule.

    Raises:
        ValueError: it is no pattern for addresses; the message says what to write.
    """
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "", text
    netloc, slash, path = rest.partition("/")
    if "?" in text or "#" in text or "@" in netloc or _ODD.search(text):
        raise ValueError(f"a url pattern has a scheme, a host, a port and a path, got {text!r}; leave out the rest")
    try:
        parts = urlsplit(f"//{netloc.removesuffix(':*').replace('*', 'x--any--x')}")
        port = _ANY_PORT if netloc.endswith(":*") else parts.port
    except ValueError as error:
        raise ValueError(f"a url pattern needs a host and perhaps a port, got {netloc!r}; write it out") from error
    host = _host_steps((parts.hostname or "").replace("x--any--x", "*"))
    if host is None:
        raise ValueError(f"a url pattern needs a host such as 'api.example.com' or '*.example.com', got {netloc!r}")
    steps = tuple(step(name) for name in split(slash + path))
    return UrlPattern(text=text, scheme=scheme.lower(), host=host, port=port, path=steps)


def _host_steps(host: str) -> tuple[Step, ...] | None:
    """Return the labels from the right, so that `*.example.com` is anything below `example.com`."""
    if host == "*":
        return (Depth.ANY,)
    rest = host.removeprefix("*.")
    name = canonical_host(rest)
    if name is None or "*" in rest:
        return None
    labels: tuple[Step, ...] = (name,) if ":" in name else tuple(reversed(name.split(".")))
    return labels if rest == host else (*labels, step("*"), Depth.ANY)
