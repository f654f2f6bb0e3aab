"""An application that opens its own runtime."""

from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from agenttool.server.app import serve_runtime
from agenttool.server.state import ServerOptions


@pytest.fixture
def make_app():
    """Return an application that opens a runtime when it starts and closes it when it stops."""

    def make_app(open_runtime, *, admits=None, mcp=None, file=None, **options):
        @asynccontextmanager
        async def lifespan(app):
            settings = ServerOptions(token=admits, **options)
            async with (
                open_runtime() as app.state.runtime,
                serve_runtime(app.state.runtime, settings, mcp=mcp, file=file) as app.state.served,
            ):
                app.router.routes.append(Mount("", app=app.state.served))
                yield

        return Starlette(lifespan=lifespan)

    return make_app
