"""Surfaces of a large catalog, and adding a tool, beside a plain list of the same tools."""

import statistics
from functools import partial

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.filters import Situation
from agenttool.catalog.surface import SurfaceRequest
from agenttool.catalog.surface_record import build_surface_record
from agenttool.catalog.visibility import decide_visibility
from agenttool.ports.surfacing import Role, SurfacePolicy
from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject, SurfaceId, Timestamp, ToolSurface
from agenttool.testing.fakes import scripted_tool
from bench.figure import Figure, compare, seconds, with_max_value

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 7
MOST_SECONDS = 50e-3
_PEER = "a list of names and schemas"


def measure(settings: object) -> list[Figure]:
    """Measure each size."""
    return [figure for size in SIZES for figure in _measure(size)]


def _measure(size: int) -> list[Figure]:
    tools = [_tool(number) for number in range(size)]
    catalog = Catalog()
    for tool in tools:
        catalog.add(*catalog.prepare(tool))
    catalog.snapshot()
    peer = statistics.median(seconds(lambda: _listed(tools)) for _ in range(ROUNDS))
    figures = {
        "most deferred": Situation(),
        "read-only, half left out": Situation(allows_writes=False),
        "ten asked for": Situation(only=frozenset(f"ns{number}.tool_{number}" for number in range(10))),
        "one namespace for a role": Situation(role=Role(name="reader", tools=("ns7.*",))),
    }
    made = [
        with_max_value(
            compare(
                f"surface over {size:,} tools: {name}", (_made(catalog, situation), peer), peer_name=_PEER, unit="ms"
            ),
            MOST_SECONDS,
        )
        for name, situation in figures.items()
    ]
    _surface(catalog, Situation())
    changed = {"one tool more": _tool(size), "one tool replaced": _tool(0)}
    grown = [
        compare(
            f"{name} of {size:,}, and the next surface",
            (seconds(partial(_changed, catalog, tool)), peer),
            peer_name=_PEER,
            unit="ms",
        )
        for name, tool in changed.items()
    ]
    return [*made, *(with_max_value(each, MOST_SECONDS) for each in grown)]


def _tool(number: int) -> DeclaredTool:
    schema: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}}}
    reads = number % 2 == 0
    return scripted_tool(f"tool_{number}", namespace=f"ns{number % 100}", schema=schema, is_read_only=reads)


def _made(catalog: Catalog, situation: Situation) -> float:
    """Return the median of some rounds, each without a cached record."""

    def surface() -> ToolSurface:
        catalog.snapshot().last_listed.clear()
        return _surface(catalog, situation)

    return statistics.median(seconds(surface) for _ in range(ROUNDS))


def _changed(catalog: Catalog, tool: DeclaredTool) -> ToolSurface:
    catalog.add(*catalog.prepare(tool))
    return _surface(catalog, Situation())


def _surface(catalog: Catalog, situation: Situation) -> ToolSurface:
    policy = SurfacePolicy()
    return build_surface_record(
        decide_visibility(catalog.snapshot(), situation, policy=policy),
        surface_id=SurfaceId("srf_1"),
        created_at=Timestamp("2026-05-08T00:00:00Z"),
        request=SurfaceRequest(),
        situation=situation,
        policy=policy,
    )


def _listed(tools: list[DeclaredTool]) -> object:
    return [
        {"name": tool.declaration.name, "parameters": tool.interface.model_input_schema}
        for tool in tools
        if tool.interface.is_enabled is not False
    ]
