"""Which pages a person may be sent to: a stranger names them, and the person trusts what we show."""

import re
from urllib.parse import urlsplit

LONGEST = 8_000
"""Browsers and mail programs cut what is longer, and nobody reads it."""

_PLAIN = re.compile(rf"[\x21-\x5b\x5d-\x7e]{{1,{LONGEST}}}")
_HERE = ("localhost", "127.0.0.1", "::1")


def why_not_shown(url: str, *, allows_http: bool) -> str | None:
    """Say why a person is not sent to a page, without repeating its URL; none if they may be.

    Args:
        url: of the page, as a stranger gave it.
        allows_http: whether it may do without TLS if it is on this machine.
    """
    if not _PLAIN.fullmatch(url):
        return f"auth_url must have at most {LONGEST} characters, all of them plain, the others encoded; correct it"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "auth_url must be a URL; correct it"
    if not parts.hostname or "@" in parts.netloc:
        return "auth_url must name a host, and no user: what stands before an @ is taken for the host; correct it"
    if parts.scheme == "https" or (parts.scheme == "http" and allows_http and parts.hostname in _HERE):
        return None
    return "auth_url must use https; correct it"
