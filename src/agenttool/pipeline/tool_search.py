"""The tool by which a model finds the tools that wait, and has them loaded."""

from typing import cast

from agenttool.catalog.spoken import FINDER
from agenttool.pipeline.built_in import BuiltIn, built_in_id
from agenttool.pipeline.call import Call
from agenttool.ports.executor import Job
from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject, ToolKind

FINDER_ID = built_in_id(FINDER)

AT_MOST = 50
DEFAULT_LIMIT = 5

_DESCRIPTION = (
    "Find tools that are not listed here, and load them. Say in a few words what is to be done, and get the tools "
    "that fit, best first. Then load what you need with the query select:NAME, or select:NAME,NAME for several; "
    "loaded tools can be called from the next turn on. Not for searching files, the web or anything but tools."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "description": "What is to be done, such as 'open a pull request'; or select:NAME to load a tool",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": AT_MOST,
            "description": f"How many matches to give at most; {DEFAULT_LIMIT} if left out",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


_TOOL = BuiltIn(name=FINDER, kind=ToolKind.RETRIEVAL, description=_DESCRIPTION, schema=_SCHEMA)


def tool_search_tool() -> DeclaredTool:
    """Declare the tool."""
    return _TOOL.declared(ToolSearch())


class ToolSearch:
    """Searches on behalf of the agent that asks, on the surface that it asks on."""

    async def start(self, job: Job, /) -> JsonObject:
        """Search, and load what was selected."""
        call = cast("Call", job)  # it is the call itself; nothing else knows the surface
        asked = job.call_input
        return await call.core.find_tools(
            call.surface, str(asked["query"]), cast("int", asked.get("limit", DEFAULT_LIMIT)), call.shown.known_as
        )
