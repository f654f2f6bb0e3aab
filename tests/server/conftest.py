"""An application that opens its own runtime."""

from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from agenttool.server.app import app_of


@pytest.fixture
def make_app():
    """Return an application that opens a runtime when it starts and closes it when it stops."""

    def make_app(open_runtime, *, admits=None, **options):
        @asynccontextmanager
        async def lifespan(app):
            async with open_runtime() as app.state.runtime:
                app.router.routes.append(Mount("", app=app_of(app.state.runtime, admits=admits, **options)))
                yield

        return Starlette(lifespan=lifespan)

    return make_app
