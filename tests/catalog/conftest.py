"""A fixture that creates a surface of tools in a situation."""

import pytest

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.filters import Situation
from agenttool.catalog.surface import Surface, SurfaceRequest
from agenttool.catalog.surface_record import build_surface_record
from agenttool.catalog.visibility import decide_visibility
from agenttool.codec import to_json
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.schema.compile import compile_schema
from agenttool.schema.record_schemas import schema_of


@pytest.fixture(scope="session")
def surface():
    """Return a function that creates a surface; keyword arguments are fields of the situation."""

    def surface(*tools, loaded=frozenset(), policy=None, finder=None, circumstances=None, **situation):
        catalog = Catalog()
        for tool in tools:
            catalog.add(*catalog.prepare(tool))
        here = Situation(circumstances=Circumstances(**(circumstances or {})), **situation)
        policy = policy or SurfacePolicy()
        visibility = decide_visibility(catalog.snapshot(), here, loaded=loaded, policy=policy, finder=finder)
        request = SurfaceRequest()
        record = build_surface_record(
            visibility,
            surface_id="srf_1",
            created_at="2026-05-08T00:00:00Z",
            request=request,
            situation=here,
            policy=policy,
        )
        assert compile_schema(schema_of("tool_surface")).misfits(to_json(record)) == []
        return Surface(record=record, visibility=visibility, request=request, situation=here, loaded=frozenset(loaded))

    return surface
