"""The settings of a provider."""

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from agenttool.adapters.rap.credentials import Credential
from agenttool.errors import ConfigError
from agenttool.http.ssrf import SsrfPolicy
from agenttool.rap.declare import RapTool
from agenttool.rap.limits import Limits
from agenttool.rap.oauth import Cipher, OAuthClient

CleanUp = Callable[[str], Coroutine[object, object, None]]
"""Takes the id of a thread that closed."""

Move = Callable[[str, str], Coroutine[object, object, None]]
"""Takes the root thread of a session, and the base URL of the same server on another host."""


OpenTools = Callable[[], AbstractAsyncContextManager[list[RapTool]]]


@dataclass(slots=True, kw_only=True)
class ProviderSettings:
    """The configuration of a provider, as `Provider` takes it, and its tools.

    Attributes:
        admits: who may call.
        presents: the credential of callbacks.
        presents_to: the origins that may see it; all if empty.
        runtimes: each opens a runtime and yields its tools, which are offered, too.
    """

    name: str
    description: str | None
    store: Path
    url: str | None
    policy: SsrfPolicy
    admits: Credential | None
    presents: Credential | None
    presents_to: frozenset[str]
    limits: Limits
    cipher: Cipher | None = None
    clients: dict[str, OAuthClient] = field(default_factory=dict)
    tools: dict[str, RapTool] = field(default_factory=dict)
    runtimes: list[OpenTools] = field(default_factory=list)
    on_close: list[CleanUp] = field(default_factory=list)
    on_migrate: list[Move] = field(default_factory=list)

    def add_tool(self, tool: RapTool) -> str:
        """Add a tool, and return its name.

        Raises:
            ConfigError: another tool has its name, or it requires an unknown OAuth client.
        """
        name = tool.definition.name
        if name in self.tools:
            raise ConfigError(f"two tools are named {name!r}; rename one of them")
        if tool.requires_auth is not None and tool.requires_auth not in self.clients:
            raise ConfigError(f"{name!r} requires the OAuth client {tool.requires_auth!r}; give it to the provider")
        self.tools[name] = tool
        return name
