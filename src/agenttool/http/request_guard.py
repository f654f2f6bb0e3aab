"""Which requests an HTTP server of a runtime refuses before it reads them: those of browsers, and for other hosts."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool.codec import json_bytes
from agenttool.http.ssrf import address_in
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

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_BROWSER = "a browser may not use this server: use a program, or name the page's origin in `origins` of [server]"
_OTHER_HOST = (
    "the request is for the host {!r}, which is not this server's; use its address and port, or set --url or [server]"
    " url"
)


def parse_host(text: str) -> str | None:
    """Return the host of a Host header in lower case; None if the header is not a host with an optional port."""
    found = _HOST.fullmatch(text)
    return None if found is None else (found[1] or found[2]).lower()


def problem_document(
    status: HTTPStatus, detail: str, more: JsonObject | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as a problem document (RFC 9457). Without a `reason` of its own, it is the name of the status."""
    document: JsonObject = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "reason": status.name.lower(),
    }
    return Response(json_bytes(document | (more or {})), status.value, headers, "application/problem+json")


class RequestGuard:
    """Middleware that refuses pages of other sites, requests for other hosts, and headers that are sent twice.

    A web page can give its own name the address of this machine (DNS rebinding). The host of its requests is then that
    name, never an address. So addresses pass, and names only if they are known; each with the port on which this server
    listens. The host and port of `url` pass as well, because a proxy may listen there.

    `scope["state"]["is_own_page"]` says whether a request is of a page of this very server: origins are compared with
    host and port, and the browser must not report another site.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        origins: Collection[str] = (),
        url: str | None = None,
        sealed: str | None = None,
        is_page: Callable[[str], bool] | None = None,
    ) -> None:
        """Guard an application.

        Args:
            app: the application.
            origins: pages of these may use it, as those of this server may; each with scheme, host and port.
            url: the URL under which other machines reach it.
            sealed: posts to URLs with this path in them may name any host, because no URL there can be guessed, and an
                earlier address of the store may still lead here.
            is_page: returns whether a path is a page or a part of one, which a user may open in a browser. Without it
                the server has no pages, and refuses every browser.
        """
        self._app = app
        self._origins = frozenset(origins)
        parts = urlsplit(url or "")
        self._hosts = frozenset({"localhost", parts.hostname or ""})
        self._default_port = _DEFAULT_PORTS.get(parts.scheme, 0)
        self._public = (parts.hostname, parts.port or self._default_port)
        self._own_origin = f"{parts.scheme}://{parts.netloc}"
        self._sealed = sealed
        self._is_page = is_page
        self._is_own = lru_cache(maxsize=64)(self._names_this)

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
        origin, host = found.get(b"origin", b"").decode("latin-1"), found.get(b"host", b"").decode("latin-1")
        server = scope.get("server")
        port = None if server is None else server[1]  # None for a Unix socket
        is_browser = not BROWSER_HEADERS.isdisjoint(found)
        has_pages = is_browser and self._is_page is not None and self._is_own(host, port)
        is_own_page = has_pages and self._is_same_origin(scope, found, origin, host)
        scope.setdefault("state", {})["is_own_page"] = is_own_page
        if is_browser and not is_own_page and origin not in self._origins and not self._is_navigation(scope, found):
            return problem_document(HTTPStatus.FORBIDDEN, _BROWSER)
        is_sealed = self._sealed is not None and self._sealed in scope["path"] and scope["method"] == "POST"
        if b"host" in found and not is_sealed and not self._is_own(host, port):
            return problem_document(HTTPStatus.FORBIDDEN, _OTHER_HOST.format(host))
        return None

    def _is_same_origin(self, scope: Scope, found: Mapping[bytes, bytes], origin: str, host: str) -> bool:
        """Return whether a browser says that a page of this server sends a request; a read has no origin."""
        site = found.get(b"sec-fetch-site")
        if not origin:
            return site == b"same-origin" and scope["method"] in ("GET", "HEAD")
        return origin in (f"http://{host}", self._own_origin) and site in (None, b"same-origin")

    def _is_navigation(self, scope: Scope, found: Mapping[bytes, bytes]) -> bool:
        """Return whether a user opens a page; no script can read what it returns."""
        is_page = self._is_page is not None and self._is_page(scope["path"])
        if scope["method"] not in ("GET", "HEAD") or b"origin" in found or not is_page:
            return False
        return found.get(b"sec-fetch-dest") == b"document" or found.get(b"sec-fetch-site") == b"none"

    def _names_this(self, header: str, listening: int | None) -> bool:
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        host, port = (found[1] or found[2]).lower(), int(found[3] or 0)
        if (host, port or self._default_port) == self._public:
            return True
        is_port = listening is None or (port or _DEFAULT_PORTS["http"]) == listening
        return is_port and (host in self._hosts or address_in(host) is not None)
