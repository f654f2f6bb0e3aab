"""Resources and prompts for MCP clients: those of the sources, passed on, and the stored output of calls."""

import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.errors import CallerError, StoreError
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

    def __init__(self, runtime: Runtime, role: Role | None) -> None:
        """Take the runtime and the role; a role has the resources of the sources whose tools it may have."""
        self._runtime = runtime
        self._role = role

    @property
    def _providers(self) -> Iterator[ResourceProvider]:
        patterns = None if self._role is None else [each.partition(".")[0] for each in self._role.tools]
        for each in self._runtime.sources.all_of(ResourceProvider):
            if patterns is None or any(fits(pattern, each.name) for pattern in patterns):
                yield each

    @property
    def is_empty(self) -> bool:
        """Whether no source has resources or prompts."""
        return not any(True for _ in self._providers)

    def watch(self, changed: OfferChanged) -> None:
        """Report changes of all sources from now on."""
        for each in self._providers:
            each.watch(changed)

    async def entries(self, kind: OfferKind) -> list[JsonObject]:
        """Return all entries of a list, in the order of their names; a source that is away has none."""
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

    async def read(self, uri: str, *, is_stateless: bool) -> JsonObject:
        """Return the contents of a resource, or of stored output.

        Raises:
            MCPError: there is no such resource, or it cannot be read now.
        """
        if uri.startswith(PAYLOAD_SCHEME):
            found = await self._payload(uri)
        else:
            found = await _first(self._providers, lambda provider: provider.read_resource(uri))
        if found is None:
            code = types.INVALID_PARAMS if is_stateless else _OLD_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri})
        return found

    async def _payload(self, uri: str) -> JsonObject | None:
        try:
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
            MCPError: there is no such prompt, or it cannot be had now.
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
