"""Who may call a provider: what comes with a request is checked before anything in it is looked at."""

import logging
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Scope

from agenttool.adapters.rap import credentials
from agenttool.adapters.rap.credentials import Credential, SaysWhy, TakenOnce
from agenttool.rap.settings import Settings

_OF_BROWSERS = ("origin", "sec-fetch-site")
"""What browsers send along with what a page does: a page that somebody has open must not reach what trusts everybody
here, and it can, for a body without a type goes out without asking."""

_log = logging.getLogger(__name__)

TakeOnce = Callable[[str, float], Awaitable[bool]]
"""Keeps a word until a moment, and tells whether it is new."""


class Admission:
    """Knows the callers of one provider."""

    def __init__(self, settings: Settings) -> None:
        """Take the provider."""
        self._settings = settings
        self._once = settings.admits if isinstance(settings.admits, TakenOnce) else None

    async def caller_of(self, request: Request, body: bytes, take_once: TakeOnce) -> str:
        """Name the caller.

        Raises:
            HTTPException: it is a stranger, or has said before what it says now.
        """
        admits = self._settings.admits
        if admits is None:
            if any(name in request.headers for name in _OF_BROWSERS):
                raise HTTPException(403, "web pages may not call; give the provider `auth`, and present it")
            return ""
        headers = {name.lower(): value for name, value in request.headers.items()}
        url = address_of(request.scope, self._settings.url)
        asked = credentials.CredentialRequest(method=request.method, url=url, headers=headers, body=body)
        caller = admits.caller_of(asked)
        if caller is not None and self._once is not None and not await take_once(*self._once.once(asked)):
            caller = None
        if caller is None:
            raise _stranger(asked, admits)
        return caller


def address_of(scope: Scope, base: str | None) -> str | None:
    """Give the URL that a request came to, as this server knows it; none if it does not.

    The request's own word for it would let whoever has seen a request to another server repeat it here. Without a base
    URL it is the address that was listened at, which is right for whoever calls that, and for nobody else.
    """
    query = scope["query_string"].decode("latin-1")
    asked = f"?{query}" if query else ""
    if base is not None:
        return f"{base}{scope['path'].removeprefix(scope.get('root_path', ''))}{asked}"
    host, port = scope.get("server") or (None, None)
    if host is None or port is None:
        return None
    return f"{scope['scheme']}://{f'[{host}]' if ':' in host else host}:{port}{scope['path']}{asked}"


def _stranger(asked: credentials.CredentialRequest, admits: Credential) -> HTTPException:
    if not isinstance(admits, SaysWhy):
        return HTTPException(401, "not authorized", {"WWW-Authenticate": "Bearer"})
    why = admits.why_not(asked)
    _log.warning("a request was not admitted: %s", why)
    return HTTPException(401, f"not authorized: {why}", {"WWW-Authenticate": admits.challenge})
