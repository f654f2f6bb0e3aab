"""Requests to OpenAPI services: safe redirects, compressed responses, and failures with a reason."""

import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import quote, urlsplit

from agenttool.adapters.openapi.document import DocumentError, absolute_url, origin_of
from agenttool.adapters.openapi.operations import media_type
from agenttool.codec import parse_value
from agenttool.errors import AgentToolError
from agenttool.http.client import HttpClient, RequestOptions
from agenttool.http.headers import MAX_RETRY_AFTER_S, parse_retry_after
from agenttool.http.ssrf import SsrfPolicy
from agenttool.records import Json

MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_SEE_OTHER = 303
_FOUND = (301, 302)
"""They turn a POST into a GET, as browsers do; no other method changes."""

_HEADERS = {"user-agent": "agenttool", "accept": "*/*", "accept-encoding": "gzip"}
"""The headers of each request, unless it has its own."""

_SHARED_HEADERS = ("accept", "content-type")
"""The headers that another origin may see after a redirect."""

_GZIP = zlib.MAX_WBITS | 16
"""How zlib reads gzip."""

_IN_URLS = "!#$%&'()*+,/:;=?@[]~"
"""The characters of a URL that are not encoded; a document may contain others."""


class RequestFailed(AgentToolError):
    """There is no usable response.

    Attributes:
        code: the kind of failure: one of the client's, `redirect` or `encoding`.
        is_sent: whether the service may have received the request.
    """

    def __init__(self, message: str, code: str, *, is_sent: bool = True) -> None:
        """Take the reason and whether the request left."""
        super().__init__(message)
        self.code = code
        self.is_sent = is_sent


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        secrets: the texts in it that no result, error or log may show.
        fixed_query: the query parameters from the settings and the credentials, each as `NAME=VALUE`.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    fixed_query: tuple[str, ...] = field(default=(), repr=False)

    def with_url(self, url: str) -> "HttpRequest":
        """Return the request with another URL of the service; parameters of the fixed query that it lacks are added."""
        head, _, query = url.partition("#")[0].partition("?")
        pairs = query.split("&") if query else []
        names = {each.partition("=")[0] for each in pairs}
        pairs += [each for each in self.fixed_query if each.partition("=")[0] not in names]
        return replace(self, url=f"{head}?{'&'.join(pairs)}" if pairs else head)


@dataclass(frozen=True, kw_only=True)
class HttpResponse:
    """One response, with its body decompressed.

    Attributes:
        note: what a caller must know about it; empty if it answers the request itself.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    note: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300  # noqa: PLR2004 -- HTTP status class

    @property
    def content_type(self) -> str:
        """The media type without parameters."""
        return media_type(self.headers.get("content-type", ""))

    @cached_property
    def value(self) -> Json:
        """The JSON value of the body, parsed once; a byte order mark does not count.

        Raises:
            RecordError: the body is not JSON.
        """
        body = self.body.removeprefix(b"\xef\xbb\xbf")
        return parse_value(body) if body.strip() else None

    @property
    def retry_after_s(self) -> float | None:
        """The delay that `Retry-After` or a rate limit header asks for; None without one."""
        text = self.headers.get("retry-after")
        return _until_reset(self.headers) if text is None else parse_retry_after(text)


def _until_reset(headers: Mapping[str, str]) -> float | None:
    remaining = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining"))
    reset = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset"))
    if remaining != "0" or reset is None or not reset.isdecimal():
        return None
    seconds = float(reset)
    until_s = seconds - time.time() if seconds > 10 * MAX_RETRY_AFTER_S else seconds
    return min(max(until_s, 0.0), MAX_RETRY_AFTER_S)


def resolve_in_origin(url: str, target: str) -> str | None:
    """Return the URL that a response names; None if it is invalid or has another origin.

    A service behind a proxy may not know that clients reach it by HTTPS. So the scheme and port of `url` replace those
    of a URL with the same host and the other scheme.
    """
    try:
        found = absolute_url(url, target)
    except DocumentError:
        return None
    own, other = urlsplit(url), urlsplit(found)
    if other.scheme in ("http", "https") and other.scheme != own.scheme and other.hostname == own.hostname:
        found = other._replace(scheme=own.scheme, netloc=own.netloc).geturl()
    return found if origin_of(found) == origin_of(url) else None


class ServiceClient:
    """Sends requests to one service. No cookie is stored: callers share it, and must not share a session."""

    def __init__(self, policy: SsrfPolicy, timeout_s: float) -> None:
        """Take which addresses may be contacted, and how long one response may take."""
        self._http = HttpClient(policy, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def send(self, request: HttpRequest, max_bytes: int) -> HttpResponse:
        """Send a request, follow redirects, and return the response.

        A redirect to another origin carries no header of a caller or of the settings. A request with an effect is
        repeated elsewhere only within its origin.

        Raises:
            RequestFailed: there is no response, or it is too long.
        """
        origin, note = origin_of(request.url), ""
        for hop in range(MAX_REDIRECTS + 1):
            try:
                response = await self._send_once(request, max_bytes)
            except RequestFailed as error:
                if hop == 0:
                    raise
                raise RequestFailed(f"after a redirect, {error}", error.code) from error
            target = response.headers.get("location")
            if response.status not in _REDIRECTS or target is None:
                return replace(response, note=note)
            try:
                url = absolute_url(request.url, target)
            except DocumentError as error:
                raise RequestFailed("it redirects to an invalid URL", "redirect") from error
            is_same, method = origin_of(url) == origin, _method_after(request.method, response.status)
            is_plain = request.method in ("GET", "HEAD") and not request.body
            if not is_plain and response.status != _SEE_OTHER and not is_same:
                message = f"it redirects a {request.method} request to another host; check the server in the settings"
                raise RequestFailed(message, "redirect")
            headers = request.headers
            if method != request.method:
                note = f"the service answered {request.method} with status {response.status}; this is GET {url}"
                headers = {name: each for name, each in headers.items() if name.lower() != "content-type"}
                request = replace(request, method=method, body=None)
            if not is_same:
                headers = {name: each for name, each in headers.items() if name.lower() in _SHARED_HEADERS}
            request = replace(request, url=url, headers=headers)
        raise RequestFailed(f"it redirects more than {MAX_REDIRECTS} times", "redirect")

    async def _send_once(self, request: HttpRequest, max_bytes: int) -> HttpResponse:
        headers = _HEADERS | {name.lower(): value for name, value in request.headers.items()}
        is_read = request.method in ("GET", "HEAD")
        reply = await self._http.send(
            request.method,
            quote(request.url.partition("#")[0], safe=_IN_URLS),
            headers,
            request.body if is_read else request.body or b"",
            max_bytes=max_bytes,
            options=RequestOptions(send_once=not is_read),
        )
        if reply.status is None:
            advice = " (the setting allow of the source)" if reply.code == "refused" else ""
            raise RequestFailed(f"{reply.fault}{advice}", str(reply.code), is_sent=reply.is_sent)
        body, encoding = reply.body, reply.headers.get("content-encoding", "").strip().lower()
        if body and encoding not in ("", "identity"):
            body = _decompressed(body, encoding, max_bytes)
        if reply.is_truncated or len(body) > max_bytes:
            raise RequestFailed(f"its response has more than {max_bytes} bytes", "too_large")
        return HttpResponse(status=reply.status, headers=reply.headers, body=body)


def _method_after(method: str, status: int) -> str:
    """Return the method of the request that follows a redirect."""
    becomes_get = method != "HEAD" if status == _SEE_OTHER else method == "POST" and status in _FOUND
    return "GET" if becomes_get else method


def _decompressed(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a body, decompressed up to one byte more than the limit."""
    if encoding not in ("gzip", "x-gzip"):
        raise RequestFailed(f"its response has the encoding {encoding!r}, which was not asked for", "encoding")
    unpack = zlib.decompressobj(_GZIP)
    with suppress(zlib.error):
        found = unpack.decompress(body, max_bytes + 1)
        if unpack.eof or len(found) > max_bytes:
            return found
    raise RequestFailed(f"its response is not complete {encoding}", "encoding")


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets."""
    for secret in secrets:
        if len(secret) > 3:  # noqa: PLR2004 -- shorter texts occur everywhere
            text = text.replace(secret, "[redacted]")
    return text
