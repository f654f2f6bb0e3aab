"""The tools of a runtime as an MCP client lists them: their names, what each shows, and the order.

The list depends on the tools of the runtime and on the profile alone, never on the connection or on earlier requests.
A catalog that is too large for one list shows `tool_search` and `tool_call` in place of most tools. Only in sessions,
up to revision 2025-11-25, the list also shows the tools that were found.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import mcp_types as types
from mcp_types.methods import serialize_server_result

from agenttool.adapters.function_calling.function_names import assign_names, count_names, name_prefix
from agenttool.adapters.mcp.content import without_invalid
from agenttool.adapters.mcp.resources import OPERATIONS
from agenttool.catalog.entry import BUILT_IN, TOOL_SEARCH
from agenttool.codec import list_of, object_of
from agenttool.mcp.profiles import has_source, has_tool
from agenttool.ports.offer import OfferedTool
from agenttool.ports.surfacing import Role
from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject, McpMapping, ToolSurface
from agenttool.runtime import Runtime

MAX_NAME_CHARS = 44
"""Clients add a prefix such as `mcp__agenttool__` to a name, and providers of models accept 64 characters."""

PAGE_SIZE = 200
"""How many tools one page of a list has."""

TOOL_CALL = "tool_call"

_OF_RUNTIME = frozenset((BUILT_IN, "rap"))
"""The namespaces of tools that come with the runtime and with RAP sources; no user declares them."""

_OFFER_METHODS = frozenset(each.method for each in OPERATIONS.values())

_REVISIONS = ("2025-11-25", "2026-07-28")

log = logging.getLogger("agenttool.mcp")

NAME_KEY = "agenttool/name"
"""The member of `_meta` with the qualified name of a tool, as rules and the journal spell it."""

INSTRUCTIONS = (
    "Every call is checked against rules, and may wait for a person's approval. A failed call says what to change."
    f" If {TOOL_SEARCH} is listed, it finds the tools that are not, and {TOOL_CALL} runs them."
    " Read the rest of a large output with read_result, or by its resource link."
)

_SEARCH: JsonObject = {
    "name": TOOL_SEARCH,
    "title": "Find tools",
    "description": (
        "Find tools that are not listed here. Say in a few words what is to be done, such as 'open a pull request'; "
        "or give select:NAME for a tool by its name. The reply has the tools that fit, best first, each with its "
        f"name, description and input schema. Run one with {TOOL_CALL}. Not for searching files or the web."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "What is to be done, or select:NAME"},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 50,
                "description": "How many; 5 if left out",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}
_CALL: JsonObject = {
    "name": TOOL_CALL,
    "title": "Run a found tool",
    "description": (
        f"Run a tool that {TOOL_SEARCH} has found. Give its name and the arguments that its input schema describes. "
        "Permissions, approvals and checks are those of the tool."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": f"The name, as {TOOL_SEARCH} gives it"},
            "arguments": {"type": "object", "description": "The arguments of that tool"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolList:
    """The tools of one profile at one moment.

    Attributes:
        surface: the surface that decides which tools are shown.
        shown: the list, in its order.
        by_name: every tool that can be called, by the name that clients use; deferred ones included.
        names: those names by qualified name.
        qualified: the sources that are part of the names of their tools.
        is_searched: whether most tools are found by `tool_search` and run by `tool_call`.
    """

    surface: ToolSurface
    shown: tuple[JsonObject, ...]
    by_name: Mapping[str, OfferedTool]
    names: Mapping[str, str]
    qualified: frozenset[str]
    is_searched: bool

    def find(self, name: str) -> OfferedTool | None:
        """Return a tool by the name that clients use, or by its qualified name; None if the profile has none."""
        return self.by_name.get(name) or self.by_name.get(self.names.get(name, ""))

    def without_source(self, name: str) -> list[str]:
        """Return the names of the tools that a client may mean by a name without a source, which runs none."""
        return sorted(
            key for key, each in self.by_name.items() if each.name == name and each.namespace in self.qualified
        )

    def with_loaded(self, names: Iterable[str]) -> "ToolList":
        """Return this list with deferred tools shown, too; names that it does not have are ignored."""
        found = ((name, self.by_name[name]) for name in sorted(names) if name in self.by_name)
        return replace(self, shown=(*self.shown, *(_describe(name, tool) for name, tool in found if tool.is_deferred)))

    def page(self, cursor: str | None) -> tuple[Sequence[JsonObject], str | None]:
        """Return the tools after a cursor, and the next cursor.

        Raises:
            ValueError: it is no cursor of this list.
        """
        starts = {None: 0, **{str(each): each for each in range(PAGE_SIZE, len(self.shown), PAGE_SIZE)}}
        if (start := starts.get(cursor)) is None:
            raise ValueError(f"no page begins at {str(cursor)[:50]!r}")
        end = start + PAGE_SIZE
        return self.shown[start:end], str(end) if end < len(self.shown) else None


class ToolLister:
    """Lists the tools of a runtime for one profile; the list is cached until the default surface changes."""

    def __init__(self, runtime: Runtime, role: Role | None = None) -> None:
        """Take the runtime, and the role whose tools are listed; all tools without a role."""
        # No call may change the list, so it does not wait for the first stored output.
        runtime.surfaces.offer_read_result()
        self._runtime = runtime
        self._role = role
        self._cached: tuple[str, ToolList] | None = None

    async def current(self) -> ToolList:
        """Return the current list.

        Raises:
            ConfigError: the runtime is closed.
        """
        runtime, surfaces = self._runtime, self._runtime.surfaces
        if self._cached is None or self._cached[0] != surfaces.default().surface_id:
            known = None if self._cached is None else surfaces.find(self._cached[1].surface.surface_id)
            surface = await runtime.surface("session", role=self._role) if known is None else surfaces.refresh(known)
            # Making the first surface may declare the search tool, which replaces the default surface.
            self._cached = surfaces.default().surface_id, await self._make_list(surface)
        return self._cached[1]

    def absent_name(self, tools: ToolList, name: str) -> str:
        """Return the qualified name of a known tool that is not listed, so that its call reports why; else the name.

        The tool may wait for a review or for its set-up, or be of a source that is not connected.
        """
        for each in self._runtime.surfaces.tool_names():
            source, _, own = each.partition(".")
            shown = f"{name_prefix(source)}{own}" if source in tools.qualified else own
            if name == shown and has_tool(self._role, each):
                return each
        for each in sorted(self._runtime.sources.not_ready, key=len, reverse=True):
            begin = name_prefix(each) if each in tools.qualified else ""
            if "." not in name and name.startswith(begin) and has_source(self._role, each):
                return f"{each}.{name.removeprefix(begin)}"
        return name

    async def _qualified_sources(self) -> frozenset[str]:
        """Return the sources that are part of the names of their tools: all, unless the profile has only one.

        It depends on the settings alone, not on which sources are connected.
        """
        sources = frozenset(each.source for each in await self._runtime.sources.status())
        own = {each.partition(".")[0] for each in self._runtime.surfaces.tool_names()} - sources - _OF_RUNTIME
        has_one = sum(has_source(self._role, each) for each in (*sources, *own)) == 1
        return frozenset() if has_one else sources

    def schema_of(self, name: str) -> Mapping[str, object] | None:
        """Return the input schema of a tool of the last list, by name."""
        found = None if self._cached is None else self._cached[1].by_name.get(name)
        return None if found is None else found.input_schema

    async def _make_list(self, surface: ToolSurface) -> ToolList:
        search, found = f"{BUILT_IN}.{TOOL_SEARCH}", self._runtime.surfaces.offered(surface)
        offered = [each for each in found if each.qualified_name != search and not _reads_offers(each)]
        qualified = await self._qualified_sources()
        counts = count_names(offered, qualified)
        by_name = assign_names(offered, (TOOL_SEARCH, TOOL_CALL), counts=counts, max_chars=MAX_NAME_CHARS)
        is_searched = any(each.is_deferred for each in offered)
        shown = [_describe(name, tool) for name, tool in by_name.items() if not tool.is_deferred]
        shown.sort(key=lambda each: str(each["name"]))
        return ToolList(
            surface=surface,
            shown=(_SEARCH, _CALL, *shown) if is_searched else tuple(shown),
            by_name=by_name,
            names={tool.qualified_name: name for name, tool in by_name.items()},
            qualified=qualified,
            is_searched=is_searched,
        )


def _reads_offers(tool: OfferedTool) -> bool:
    """Return whether a tool reads resources or prompts of a server, for which clients have methods of their own."""
    mappings = () if tool.declared is None else tool.declared.declaration.external_mappings or ()
    return any(isinstance(each, McpMapping) and each.method in _OFFER_METHODS for each in mappings)


def definitions(tools: ToolList, qualified_names: Iterable[str]) -> list[JsonObject]:
    """Return the matches of `tool_search`: name, description and input schema of each tool."""
    found = ((tools.names.get(name), tools.find(name)) for name in qualified_names)
    return [
        {"name": name, "description": tool.description, "inputSchema": tool.input_schema}
        for name, tool in found
        if name is not None and tool is not None
    ]


def native_members(tool: OfferedTool) -> JsonObject:
    """Return the members of the MCP definition of a tool that no record has: hints, icons, `_meta` and more."""
    annotations = None if tool.declared is None else tool.declared.declaration.annotations
    return object_of((annotations or {}).get("mcp"))


def _describe(name: str, tool: OfferedTool) -> JsonObject:
    """Return the definition of a tool for clients, without members that are invalid."""
    declared = tool.declared
    if declared is None:
        raise AssertionError("an offered tool has its records")
    declaration, native = declared.declaration, native_members(tool)
    contract = declaration.output_contract
    output_schema = declared.interface.output_schema or (None if contract is None else contract.structured_schema)
    definition: JsonObject = {
        "name": name,
        "title": declaration.title,
        "description": tool.description,
        "inputSchema": {**(tool.input_schema or {}), "type": "object"},
        # Older revisions accept only the schema of an object.
        "outputSchema": output_schema if output_schema and output_schema.get("type") == "object" else None,
        "icons": native.get("icons"),
        "annotations": _annotations(declared, native),
        "_meta": {**object_of(native.get("_meta")), NAME_KEY: tool.qualified_name},
    }
    given = without_invalid(types.Tool, {key: value for key, value in definition.items() if value is not None})
    if not is_valid("tools/list", {"tools": [given]}):
        log.warning("the definition of %r has invalid members, which clients do not see", tool.qualified_name)
        given = {key: definition[key] for key in ("name", "description")}
        given |= {"inputSchema": {"type": "object"}, "_meta": {NAME_KEY: tool.qualified_name}}
    return given


def is_valid(method: str, result: JsonObject) -> bool:
    """Return whether a result is valid on every revision; the SDK sends none with one invalid entry."""
    complete = {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        for revision in _REVISIONS:
            serialize_server_result(method, revision, complete)
    except ValueError:
        return False
    return True


def _annotations(declared: DeclaredTool, native: JsonObject) -> JsonObject:
    """Return the hints: the declared facts, and those of the tool's server that its owner trusts.

    A fact that depends on the arguments is not given.
    """
    interface, given = declared.interface, object_of(native.get("annotations"))
    withheld = ("title", *list_of((declared.declaration.annotations or {}).get("untrusted")))
    hints = {name: value for name, value in given.items() if name not in withheld}
    facts = {
        "readOnlyHint": interface.is_read_only,
        "destructiveHint": interface.is_destructive,
        "openWorldHint": interface.is_open_world,
    }
    hints |= {name: value for name, value in facts.items() if isinstance(value, bool)}
    return hints if declared.declaration.title is None else {"title": declared.declaration.title, **hints}
