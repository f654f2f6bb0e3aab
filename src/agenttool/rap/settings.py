"""What a provider is made of, before it runs."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from agenttool.adapters.rap.credentials import Credential
from agenttool.adapters.rap.forgery import Reach
from agenttool.adapters.rap.wire import Invocation, read
from agenttool.errors import ConfigError, RecordError
from agenttool.rap.declare import RapTool
from agenttool.rap.limits import Limits
from agenttool.rap.oauth import Cipher, OAuthClient
from agenttool.runtime import Runtime

CleanUp = Callable[[str], Coroutine[object, object, None]]
"""Takes the id of a thread that closed."""

Move = Callable[[str, str], Coroutine[object, object, None]]
"""Takes the root thread of a session, and the base URL of the same server on another host."""


@dataclass(slots=True, kw_only=True)
class Settings:
    """A provider as its author put it together.

    Attributes:
        admits: who may call; none means everybody, for trusted networks only.
        presents: what is shown to runtimes to be known.
        governed: what opens each runtime whose tools are offered, too.
        cipher: by which tokens of users are kept; none leaves them readable for whoever may read the file.
        url: the base URL under which runtimes reach this server; taken from each request if left out.
    """

    name: str
    description: str | None
    store: Path
    url: str | None
    reach: Reach
    admits: Credential | None
    presents: Credential | None
    limits: Limits
    cipher: Cipher | None = None
    clients: dict[str, OAuthClient] = field(default_factory=dict[str, OAuthClient])
    tools: dict[str, RapTool] = field(default_factory=dict[str, RapTool])
    governed: list[Callable[[], Runtime]] = field(default_factory=list[Callable[[], Runtime]])
    on_close: list[CleanUp] = field(default_factory=list[CleanUp])
    on_migrate: list[Move] = field(default_factory=list[Move])

    def offer(self, tool: RapTool) -> str:
        """Add a tool, and give its name.

        Raises:
            ConfigError: another tool has its name, or it requires an OAuth client that there is not.
        """
        name = tool.definition.name
        if name in self.tools:
            raise ConfigError(f"two tools are named {name!r}; give one another name")
        if tool.requires_auth is not None and tool.requires_auth not in self.clients:
            raise ConfigError(f"{name!r} requires the OAuth client {tool.requires_auth!r}; give it to the provider")
        self.tools[name] = tool
        return name

    def withdraw(self, name: str) -> None:
        """Offer a tool no more."""
        del self.tools[name]

    def is_generator(self, body: bytes) -> bool:
        """Tell whether the events of a call's subscription come from a generator of ours."""
        tool = self._tool_in(body)
        return tool is not None and tool.is_subscription

    def auth_of(self, body: bytes) -> str | None:
        """Name the OAuth client that a call's tool requires."""
        tool = self._tool_in(body)
        return None if tool is None else tool.requires_auth

    def _tool_in(self, body: bytes) -> RapTool | None:
        try:
            return self.tools.get(read(body, Invocation).operation)
        except RecordError:
            return None
