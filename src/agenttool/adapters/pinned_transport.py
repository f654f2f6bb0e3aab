"""The transport of HTTP clients behind the SSRF guard: each connection leads to an address that was checked."""

import ssl
from collections.abc import Iterable
from functools import cache

import httpx2

from agenttool.adapters.ssrf import Resolver, SsrfPolicy, address_in, check_url, resolve

_LOOPBACK = ("127.0.0.0/8", "::1/128")


def policy_for(urls: Iterable[str], allow: Iterable[str]) -> SsrfPolicy:
    """Return which addresses requests may lead to: public ones, those allowed, and those that the URLs spell out.

    The owner writes these URLs into the settings. If all of them use https, other URLs must, too.

    Raises:
        ConfigError: an entry of `allow` is invalid.
    """
    own: list[str] = []
    found = [httpx2.URL(each) for each in urls]
    for url in found:
        if url.host == "localhost":
            own += (*_LOOPBACK, "localhost")
        elif address_in(url.host) is not None:
            own.append(url.host)
    return SsrfPolicy.parse((*allow, *own), https_only=all(each.scheme == "https" for each in found))


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the TLS context of all connections; loading the trusted certificates for each source would be slow."""
    return httpx2.create_ssl_context(trust_env=False)


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Resolves the host of each request once, checks all its addresses, and connects to one of them."""

    def __init__(self, policy: SsrfPolicy, max_connections: int = 100) -> None:
        """Take which addresses may be contacted, and how many connections may be open at the same time."""
        limits = httpx2.Limits(max_connections=max_connections, max_keepalive_connections=20)
        self._inner = httpx2.AsyncHTTPTransport(verify=_tls_context(), trust_env=False, limits=limits)
        self._policy = policy
        self._resolver = Resolver()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address of its host that accepts a connection.

        Raises:
            RecordError: its URL may not be contacted.
            OSError: its host name cannot be resolved.
            httpx2.HTTPError: the connection failed.
        """
        check_url(str(request.url), self._policy)
        host, failure = request.url.host, httpx2.ConnectError("no address")
        for address in await resolve(host, self._policy, self._resolver):
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # with the header `Host` of the name
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except httpx2.ConnectError as error:
                failure = error
        raise failure

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()
