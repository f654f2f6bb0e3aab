"""Resources and prompts for MCP clients: those of the sources, passed on, and the stored output of calls."""

import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.adapters.mcp.connection import Unavailable
from agenttool.adapters.mcp.session import InvalidResult
from agenttool.adapters.mcp.source import McpSource
from agenttool.errors import CallerError, StoreError
from agenttool.mcp.state import DeliveredOutput
from agenttool.policy.wildcards import fits
from agenttool.ports.resources import OfferChanged, OfferKind, ResourceProvider
from agenttool.ports.surfacing import Role
from agenttool.records import PAYLOAD_SCHEME, JsonObject
from agenttool.results.payloads import media_type_of, readable_text
from agenttool.runtime import Runtime

MAX_READ_BYTES = 20_000_000
"""Larger output is read in parts, with the tool `read_result`."""


class Offers:
    """The resources and prompts of one profile; of two prompts with one name, the second has its source before it."""

    def __init__(self, runtime: Runtime, role: Role | None, delivered: DeliveredOutput) -> None:
        """Take the runtime, the role, and the stored output that clients may read.

        A role has the resources of the sources whose tools it may have.
        """
        self._runtime = runtime
        self._role = role
        self._delivered = delivered

    @property
    def _providers(self) -> Iterator[ResourceProvider]:
        patterns = None if self._role is None else [each.partition(".")[0] for each in self._role.tools]
        sources = self._runtime.sources
        servers = (ServerOffers(each) for each in sources.all_of(McpSource))
        for each in (*sources.all_of(ResourceProvider), *servers):
            if patterns is None or any(fits(pattern, each.name) for pattern in patterns):
                yield each

    def watch(self, changed: OfferChanged) -> None:
        """Report changes of all sources from now on."""
        for each in self._providers:
            each.watch(changed)

    async def entries(self, kind: OfferKind) -> list[JsonObject]:
        """Return all entries of a list, sorted by name or URI; a source that is not connected has none."""
        found: list[JsonObject] = []
        for provider in self._providers:
            try:
                offered = await provider.list_offers(kind)
            except (CallerError, ConnectionError):
                continue
            names = {str(each.get("name")) for each in found}
            for each in offered:
                is_taken = kind is OfferKind.PROMPTS and each.get("name") in names
                found.append({**each, "name": f"{provider.name}__{each['name']}"} if is_taken else each)
        key = "name" if kind is OfferKind.PROMPTS else "uri" if kind is OfferKind.RESOURCES else "uriTemplate"
        return sorted(found, key=lambda each: str(each.get(key)))

    async def read(self, uri: str, actor: str | None, *, is_stateless: bool) -> JsonObject:
        """Return the contents of a resource, or of stored output that the actor may read.

        Raises:
            MCPError: there is no such resource, or it cannot be read now.
        """
        if uri.startswith(PAYLOAD_SCHEME):
            found = await self._payload(uri, actor)
        else:
            found = await _first(self._providers, lambda provider: provider.read_resource(uri))
        if found is None:
            code = types.INVALID_PARAMS if is_stateless else _OLD_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri})
        return found

    async def _payload(self, uri: str, actor: str | None) -> JsonObject | None:
        try:
            if not await self._delivered.contains(actor, uri):
                return None  # as for unknown output, so that clients cannot probe for the output of others
            data = await self._runtime.journal.payload(uri, length=MAX_READ_BYTES + 1)
        except StoreError as error:
            raise MCPError(types.INTERNAL_ERROR, f"the stored output cannot be read: {error}") from error
        if data is None:
            return None
        if len(data) > MAX_READ_BYTES:
            message = f"the output is larger than {MAX_READ_BYTES} bytes; read it in parts with the tool read_result"
            raise MCPError(types.INVALID_PARAMS, message, {"uri": uri})
        text = readable_text(data)
        contents: JsonObject = {"uri": uri, "mimeType": media_type_of(data)}
        contents |= {"blob": base64.b64encode(data).decode()} if text is None else {"text": text}
        return {"contents": [contents]}

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> JsonObject:
        """Return the messages of a prompt.

        Raises:
            MCPError: there is no such prompt, or its source cannot answer now.
        """
        found = await _first(self._providers, lambda provider: provider.get_prompt(name, arguments))
        source, _, bare = name.partition("__")
        if found is None and bare:
            owners = [provider for provider in self._providers if provider.name == source]
            found = await _first(owners, lambda provider: provider.get_prompt(bare, arguments))
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"no prompt is named {name!r}; list the prompts")
        return found

    async def completion(self, params: JsonObject) -> JsonObject:
        """Return completions of an argument; none if no source has some."""
        found = await _first(self._providers, lambda provider: provider.complete(params))
        return found or {"completion": {"values": [], "total": 0, "hasMore": False}}


class ServerOffers:
    """The resources and prompts of an MCP server that is a source."""

    def __init__(self, source: McpSource) -> None:
        """Take the source."""
        self._source = source

    @property
    def name(self) -> str:
        """The name of the source."""
        return self._source.name

    async def list_offers(self, kind: OfferKind) -> list[JsonObject]:
        """Return all pages of one list; a server without this feature has none."""
        found: list[JsonObject] = []
        cursor: JsonObject = {}
        for _ in range(MAX_PAGES):
            page = await self._read(_LISTS[kind], cursor) or {}
            entries = page.get(kind.value)
            found += [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else ()
            if not isinstance(page.get("nextCursor"), str):
                break
            cursor = {"cursor": page["nextCursor"]}
        return found

    async def read_resource(self, uri: str) -> JsonObject | None:
        """Return the contents of a resource."""
        return await self._read("read_resource", {"uri": uri})

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> JsonObject | None:
        """Return the messages of a prompt."""
        return await self._read("get_prompt", {"name": name, "arguments": {**arguments}})

    async def complete(self, params: JsonObject) -> JsonObject | None:
        """Return None: completion of servers is not passed on."""
        return None

    def watch(self, changed: OfferChanged) -> None:
        """Do nothing: the source does not report changes of resources."""

    async def _read(self, operation: str, members: JsonObject) -> JsonObject | None:
        """Return the reply of the server; None if it answers with an error, as for what it does not have.

        Raises:
            ConnectionError: it cannot be used now.
        """
        try:
            return await self._source.read(operation, **members)
        except MCPError:
            return None
        except (Unavailable, InvalidResult) as error:
            raise ConnectionError(str(error)) from error


_LISTS = {
    OfferKind.RESOURCES: "list_resources",
    OfferKind.TEMPLATES: "list_resource_templates",
    OfferKind.PROMPTS: "list_prompts",
}
MAX_PAGES = 100
"""How many pages of a server's list are read."""


async def _first(
    providers: Iterable[ResourceProvider], ask: Callable[[ResourceProvider], Awaitable[JsonObject | None]]
) -> JsonObject | None:
    """Return the reply of the first provider that has one.

    Raises:
        MCPError: none has one, and one of them could not answer now.
    """
    fault: Exception | None = None
    for each in providers:
        try:
            found = await ask(each)
        except (CallerError, ConnectionError) as error:
            fault = error
            continue
        if found is not None:
            return found
    if fault is not None:
        raise MCPError(types.INTERNAL_ERROR, f"the source cannot answer now: {fault}") from fault
    return None


_OLD_NOT_FOUND = -32002
"""The code for an unknown resource before revision 2026-07-28."""
