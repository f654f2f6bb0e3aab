"""Where RAP tools post back."""

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from agenttool.adapters.rap.session import Rap


class CallbackDoor:
    """Passes callbacks on to the runtime's own endpoint, once the runtime is there."""

    def __init__(self) -> None:
        """Begin without a runtime."""
        self.rap: Rap | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app = PlainTextResponse("not found", status_code=404) if self.rap is None else self.rap.app
        await app(scope, receive, send)
