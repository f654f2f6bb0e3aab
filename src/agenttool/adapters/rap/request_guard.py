"""Which requests an HTTP server of a runtime refuses before it reads them: those of browsers, and for other hosts."""

import re
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool.codec import json_bytes
from agenttool.records import JsonObject

BROWSER_HEADERS = frozenset({b"origin", b"sec-fetch-dest", b"sec-fetch-site", b"sec-fetch-user"})
"""Only browsers send them. `Sec-Fetch-Mode` alone is also sent by programs that use the `fetch` of Node.js."""

_SINGLE_HEADERS = BROWSER_HEADERS | {
    b"authorization",
    b"content-length",
    b"content-type",
    b"host",
    b"sec-fetch-mode",
    b"transfer-encoding",
}
"""Of two such headers, two readers may believe different ones."""

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_BROWSER = "a browser may not use this server: use a program, or name the page's origin in `origins` of [server]"
_OTHER_HOST = (
    "the request is for the host {!r}, which is not this server's; use its address, or set --url or [server] url"
)


def parse_host(text: str) -> str | None:
    """Return the host of a Host header in lower case; None if the header is not a host with an optional port."""
    found = _HOST.fullmatch(text)
    return None if found is None else (found[1] or found[2]).lower()


def problem_document(status: HTTPStatus, detail: str, pointer: str | None = None) -> Response:
    """Return an error as a problem document (RFC 9457)."""
    document: JsonObject = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    if pointer is not None:
        document["pointer"] = pointer
    return Response(json_bytes(document), status.value, media_type="application/problem+json")


class RequestGuard:
    """Middleware that refuses browsers, requests for other hosts, and headers that are sent twice.

    A web page can give its own name the address of this machine (DNS rebinding). The host of its requests is then that
    name, never an address. So addresses pass, and names only if they are known.
    """

    def __init__(
        self, app: ASGIApp, *, origins: Collection[str] = (), url: str | None = None, sealed: str | None = None
    ) -> None:
        """Guard an application.

        Args:
            app: the application.
            origins: pages of these may use it, as those of this server may; each with scheme, host and port.
            url: the URL under which other machines reach it.
            sealed: posts to URLs below this path may name any host, because no URL there can be guessed, and an earlier
                address of the store may still lead here.
        """
        self._app = app
        self._origins = frozenset(origins)
        self._hosts = frozenset({"localhost", (urlsplit(url).hostname or "") if url is not None else ""})
        self._sealed = sealed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        refusal = self._refusal_of(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal_of(self, scope: Scope) -> Response | None:
        found: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in found and name in _SINGLE_HEADERS:
                detail = f"the header {name.decode('latin-1')!r} was sent twice; send it once"
                return problem_document(HTTPStatus.BAD_REQUEST, detail)
            found[name] = value
        origin, host = (found.get(name, b"").decode("latin-1") for name in (b"origin", b"host"))
        # A page of this very server: the origin is its own, and the browser does not report another site.
        is_own_page = self._is_own(parse_host(host)) and origin == f"http://{host}"
        is_own_page = is_own_page and found.get(b"sec-fetch-site", b"same-origin") == b"same-origin"
        if not BROWSER_HEADERS.isdisjoint(found) and not is_own_page and origin not in self._origins:
            return problem_document(HTTPStatus.FORBIDDEN, _BROWSER)
        is_sealed = self._sealed is not None and scope["path"].startswith(self._sealed) and scope["method"] == "POST"
        if b"host" in found and not is_sealed and not self._is_own(parse_host(host)):
            return problem_document(HTTPStatus.FORBIDDEN, _OTHER_HOST.format(host))
        return None

    def _is_own(self, host: str | None) -> bool:
        return host is not None and (host in self._hosts or is_address(host))


def is_address(host: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
