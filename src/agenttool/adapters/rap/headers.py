"""Headers that somebody else gives for a request: none may end it, begin another, or say where it ends."""

import re
from collections.abc import Mapping

from agenttool.errors import RecordError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_OURS = frozenset(
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
"""What says where a request goes, where it ends, and what becomes of its connection."""


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse headers that change what a request is.

    Raises:
        RecordError: says which, and never repeats its value: it may be a secret.
    """
    seen: set[str] = set()
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise RecordError(f"the header {name!r} cannot be sent; use printable characters only")
        if name.lower() in _OURS:
            raise RecordError(f"the header {name!r} is written with each request, and cannot be given; leave it out")
        if name.lower() in seen:
            raise RecordError(f"the header {name!r} is given twice; leave one out")
        seen.add(name.lower())
