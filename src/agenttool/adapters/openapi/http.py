"""The HTTP client of OpenAPI services, with an SSRF guard, bounded responses and safe redirects."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import httpx2

from agenttool.adapters.openapi.document import DocumentError, absolute_url
from agenttool.adapters.openapi.operations import media_type
from agenttool.adapters.pinned_transport import PinnedTransport
from agenttool.adapters.ssrf import SsrfPolicy
from agenttool.errors import AgentToolError, RecordError

CONNECT_S = 15.0
MAX_REDIRECTS = 5
MAX_RETRY_AFTER_S = 3600.0
_REDIRECTS = (301, 302, 303, 307, 308)
_SEE_OTHER = 303
_FOUND = (301, 302)
"""They turn a POST into a GET, as browsers do; no other method changes."""

_USER_AGENT = "agenttool"
_SHARED_HEADERS = ("accept", "content-type")
"""The headers that another origin may see after a redirect."""

_AUTOMATIC, _RAW = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS
"""How zlib finds the format of its data: gzip or zlib, or neither, which some servers call deflate."""

_COMPRESSED = ("gzip", "x-gzip", "deflate")

_UNTRUSTED = "its certificate is not trusted; add the authority that signed it to the certificates of this machine"


class RequestFailed(AgentToolError):
    """There is no usable response.

    Attributes:
        code: the kind of failure: `refused`, `not_connected`, `connection_lost`, `timeout`, `too_large`, `redirect`,
            `encoding`.
        is_sent: whether the service may have received the request.
    """

    def __init__(self, message: str, code: str, *, is_sent: bool) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """One response, with its body decoded from its transfer encoding.

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

    @property
    def retry_after_s(self) -> float | None:
        """The delay that `Retry-After` or a rate limit header asks for; None without one."""
        text = self.headers.get("retry-after")
        if text is None:
            return _until_reset(self.headers)
        if text.strip().isdecimal():
            return min(float(text), MAX_RETRY_AFTER_S)
        try:
            until_s = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
        return min(max(until_s, 0.0), MAX_RETRY_AFTER_S)


def _until_reset(headers: Mapping[str, str]) -> float | None:
    remaining = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining"))
    reset = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset"))
    if remaining != "0" or reset is None or not reset.isdecimal():
        return None
    seconds = float(reset)
    until_s = seconds - time.time() if seconds > 10 * MAX_RETRY_AFTER_S else seconds
    return min(max(until_s, 0.0), MAX_RETRY_AFTER_S)


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, the host and the port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)


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
    """Sends requests to one service."""

    def __init__(self, policy: SsrfPolicy, timeout_s: float) -> None:
        """Take which addresses may be contacted, and how long one response may take."""
        self._timeout_s = timeout_s
        self._http = httpx2.AsyncClient(
            transport=PinnedTransport(policy),
            timeout=httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            trust_env=False,
            follow_redirects=False,
            # No cookie is stored: callers share this client, and must not share a session.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            headers={"User-Agent": _USER_AGENT, "Accept-Encoding": "gzip, deflate"},
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

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
                raise RequestFailed(f"after a redirect, {error}", error.code, is_sent=True) from error
            target = response.headers.get("location")
            if response.status not in _REDIRECTS or target is None:
                return replace(response, note=note)
            url = _target(request.url, target)
            is_same, method = origin_of(url) == origin, _method_after(request.method, response.status)
            is_plain = request.method in ("GET", "HEAD") and not request.body
            if not is_plain and response.status != _SEE_OTHER and not is_same:
                message = f"it redirects a {request.method} request to another host; check the server in the settings"
                raise RequestFailed(message, "redirect", is_sent=True)
            if method != request.method:
                note = f"the service answered {request.method} with status {response.status}; this is GET {url}"
                plain = {name: each for name, each in request.headers.items() if name.lower() != "content-type"}
                request = replace(request, method=method, body=None, headers=plain)
            if not is_same:
                shared = {name: each for name, each in request.headers.items() if name.lower() in _SHARED_HEADERS}
                request = replace(request, headers=shared)
            request = replace(request, url=url)
        raise RequestFailed(f"it redirects more than {MAX_REDIRECTS} times", "redirect", is_sent=True)

    async def _send_once(self, request: HttpRequest, max_bytes: int) -> HttpResponse:
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._http.stream(
                    request.method, request.url, headers=dict(request.headers), content=request.body
                ) as response,
            ):
                has_body = request.method != "HEAD"
                body = await _read(response.aiter_raw(), response.headers, max_bytes) if has_body else b""
                return HttpResponse(status=response.status_code, headers=response.headers, body=body)
        except RecordError as error:
            raise RequestFailed(f"{error} (the setting allow of the source)", "refused", is_sent=False) from error
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise RequestFailed(str(error), "refused", is_sent=False) from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            reason = _UNTRUSTED if "CERTIFICATE_VERIFY_FAILED" in str(error) else "no connection"
            raise RequestFailed(reason, "not_connected", is_sent=False) from error
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise RequestFailed(
                f"its response took more than {self._timeout_s:g} s", "timeout", is_sent=True
            ) from error
        except httpx2.LocalProtocolError as error:
            raise RequestFailed("a header of the request is invalid", "refused", is_sent=False) from error
        except httpx2.HTTPError as error:
            reason = f"the connection was lost ({type(error).__name__})"
            raise RequestFailed(reason, "connection_lost", is_sent=True) from error
        except (OSError, UnicodeError) as error:
            raise RequestFailed("its host name cannot be resolved", "not_connected", is_sent=False) from error


def _method_after(method: str, status: int) -> str:
    """Return the method of the request that follows a redirect."""
    becomes_get = method != "HEAD" if status == _SEE_OTHER else method == "POST" and status in _FOUND
    return "GET" if becomes_get else method


def _target(url: str, location: str) -> str:
    try:
        return absolute_url(url, location)
    except DocumentError as error:
        raise RequestFailed("it redirects to an invalid URL", "redirect", is_sent=True) from error


async def _read(parts: AsyncIterator[bytes], headers: Mapping[str, str], max_bytes: int) -> bytes:
    """Return a body, decompressed; one that is too long is neither read nor decompressed to its end."""
    fault = RequestFailed(f"its response has more than {max_bytes} bytes", "too_large", is_sent=True)
    announced, encoding = headers.get("content-length", ""), headers.get("content-encoding", "").strip().lower()
    if announced.isdecimal() and int(announced) > max_bytes:
        raise fault
    if encoding not in ("", "identity", *_COMPRESSED):
        raise RequestFailed(
            f"its response has the encoding {encoding!r}, which was not asked for", "encoding", is_sent=True
        )
    unpack = zlib.decompressobj(_AUTOMATIC) if encoding in _COMPRESSED else None
    body, has_begun = bytearray(), False
    async for part in parts:
        has_begun = True
        if unpack is None:
            body += part
        else:
            try:
                body += unpack.decompress(part, max_bytes + 1 - len(body))
            except zlib.error as error:
                if body or encoding != "deflate":
                    raise RequestFailed(f"its response is not {encoding}", "encoding", is_sent=True) from error
                unpack = zlib.decompressobj(_RAW)
                body += unpack.decompress(part, max_bytes + 1)
        if len(body) > max_bytes:
            raise fault
    if unpack is not None and has_begun and not unpack.eof:
        raise RequestFailed(f"its response is not complete {encoding}", "encoding", is_sent=True)
    return bytes(body)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets."""
    for secret in secrets:
        if len(secret) > 3:  # noqa: PLR2004 -- shorter texts occur everywhere
            text = text.replace(secret, "[redacted]")
    return text
