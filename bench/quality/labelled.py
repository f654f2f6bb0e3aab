"""The labelled set: everyday tools of many services, and what people say who want one of them.

The requests were written from tasks, before and apart from the words of the tools that answer them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Tool:
    """What a ranker may know of a tool."""

    namespace: str
    name: str
    description: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody says, and the places of the tools that would help, of which one is enough."""

    query: str
    wanted: frozenset[int]


def tools() -> list[Tool]:
    """Read the catalog, one tool a line: `namespace.name | description | parameters`."""
    lines = [line for path in sorted((PLACE / "catalog").glob("*.txt")) for line in path.read_text().splitlines()]
    return [_tool(line) for line in lines]


def requests(catalog: Sequence[Tool]) -> list[Request]:
    """Read the requests, one a line: `what is said | name, name`."""
    places = {f"{tool.namespace}.{tool.name}": place for place, tool in enumerate(catalog)}
    found: list[Request] = []
    for line in (PLACE / "queries.txt").read_text().splitlines():
        query, _, names = line.rpartition("|")
        found.append(Request(query.strip(), frozenset(places[name.strip()] for name in names.split(","))))
    return found


def _tool(line: str) -> Tool:
    qualified, description, parameters = (cell.strip() for cell in line.split("|"))
    namespace, _, name = qualified.partition(".")
    return Tool(namespace, name, description, tuple(parameters.split()))
