"""What the tests of the catalog share: a surface made of tools in a situation."""

import pytest

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.fates import Wish, decide_fates
from agenttool.catalog.filters import Situation
from agenttool.catalog.request import SurfaceRequest
from agenttool.catalog.surface import Surface
from agenttool.catalog.surface_record import Making, record_of
from agenttool.codec import to_json
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.schema.compile import compile_schema
from agenttool.schema.record_schemas import schema_of


@pytest.fixture(scope="session")
def surface():
    """Make a surface of tools; `circumstances` are given by name, like all else that a situation has."""

    def surface(*tools, loaded=frozenset(), policy=None, finder=None, circumstances=None, **situation):
        catalog = Catalog()
        for tool in tools:
            catalog.declare(tool)
        here = Situation(circumstances=Circumstances(**(circumstances or {})), **situation)
        policy = policy or SurfacePolicy()
        wish = Wish(loaded=frozenset(loaded), policy=policy, finder=finder)
        fates = decide_fates(catalog.roster(), here, wish)
        request = SurfaceRequest()
        making = Making(
            surface_id="srf_1", created_at="2026-05-08T00:00:00Z", request=request, situation=here, policy=policy
        )
        record = record_of(fates, making)
        assert compile_schema(schema_of("tool_surface")).misfits(to_json(record)) == []
        return Surface(record=record, fates=fates, request=request, situation=here, loaded=wish.loaded)

    return surface
