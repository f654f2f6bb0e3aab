"""Where callbacks of a store come in: one address for all of its processes, noted so that each of them knows it.

A call that is sent again after a crash must be the same, word for word, and its callback URL is a part of it: servers
take another URL for another call. So two processes that tell tools different addresses could have a call run twice.
"""

import hmac
import json
import secrets
from dataclasses import replace
from urllib.parse import urlsplit

from agenttool.adapters.rap.addresses import Addresses
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.forgery import Reach
from agenttool.errors import ConfigError
from agenttool.ports.stores import DocumentStore

_SHELF, _KEY = "rap_address", "served"

STARTS_WITHIN_S = 10.0
"""A process takes connections before it answers them: so long it is waited for while it asks what servers offer."""


async def claim(shelf: DocumentStore, ours: Addresses) -> str | None:
    """Note that callbacks of a store come in at an address; give the one before, if that was another.

    Raises:
        ConfigError: another process of the store is there and has them come in elsewhere.
    """
    while True:
        kept = await shelf.get(_SHELF, _KEY)
        before = None if kept is None else kept.decode()
        if before == ours.base:
            return None
        if before is not None and await is_served(replace(ours, base=before), STARTS_WITHIN_S):
            raise ConfigError(
                f"another process of this store has tools call back at {before}, and this one would at {ours.base}: a"
                " call that both send could be run twice; give both the same --url or [server] url, or stop the other"
            )
        if await shelf.swap(_SHELF, _KEY, before=kept, after=ours.base.encode()):
            return before


async def claimed(shelf: DocumentStore, ours: Addresses) -> Addresses | None:
    """Give where callbacks of a store come in while another process sees to them; none if nobody does."""
    kept = await shelf.get(_SHELF, _KEY)
    if kept is None:
        return None
    place = replace(ours, base=kept.decode())
    return place if place.base == ours.base or await is_served(place, STARTS_WITHIN_S) else None


async def is_served(place: Addresses, within_s: float) -> bool:
    """Tell whether a process of the same store answers at a place, which nobody else can make us believe."""
    word = secrets.token_hex(16)
    courier = Courier(Reach.of([urlsplit(place.base).hostname or ""]), timeout_s=within_s)
    try:
        reply = await courier.get(f"{place.base}/{word}", max_bytes=1000)
    finally:
        await courier.close()
    expected = json.dumps({"proof": place.proof(word)}).encode()
    return reply.is_accepted and hmac.compare_digest(reply.body, expected)
