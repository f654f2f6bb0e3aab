"""Where RAP tools post back."""

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from agenttool.assemble import Runtime


class CallbackDoor:
    """Passes callbacks on to the served runtime's own endpoint."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; a runtime without such sources has no callback URLs."""
        runtime: Runtime = scope["app"].state.runtime
        app = PlainTextResponse("not found", status_code=404) if runtime.rap is None else runtime.rap.app
        await app(scope, receive, send)
