"""HTTP headers: which ones a request may have, and what `Retry-After` asks for."""

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from agenttool.errors import RecordError

MAX_RETRY_AFTER_S = 3600.0
"""The longest `Retry-After` that is honored."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
RESERVED_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""The headers that set the destination, the framing or the connection of a request."""


def check_headers(headers: Mapping[str, str]) -> None:
    """Reject headers that would change the destination or the framing of a request.

    Raises:
        RecordError: names the header, but never its value, which may be a secret.
    """
    seen: set[str] = set()
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise RecordError(f"the header {name!r} cannot be sent; use printable characters only")
        if name.lower() in RESERVED_HEADERS:
            raise RecordError(f"the header {name!r} is set by the client and cannot be given; leave it out")
        if name.lower() in seen:
            raise RecordError(f"the header {name!r} is given twice; leave one out")
        seen.add(name.lower())


def parse_retry_after(text: str) -> float | None:
    """Return the seconds of a `Retry-After` header, the longest of several; None if it is no number and no date."""
    numbers = text.replace(",", " ").split()
    try:
        if numbers and all(map(str.isdecimal, numbers)):
            wait_s = max(map(float, numbers))
        else:
            wait_s = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)
