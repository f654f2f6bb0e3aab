"""What a source may offer besides tools: resources and prompts, in the words of the Model Context Protocol."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from agenttool.records import ClosedEnum, JsonObject


class OfferKind(ClosedEnum):
    """The lists of a provider; the values are the members of the protocol's list results."""

    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"


OfferChanged = Callable[[OfferKind], None]
"""Takes the list that changed; called in the event loop, and returns at once."""

Unsubscribe = Callable[[], None]
"""Ends a subscription."""


@runtime_checkable
class ResourceProvider(Protocol):
    """A source with resources and prompts. All members of its objects are passed on as they are.

    `read_resource`, `get_prompt` and `complete` may ask the client by `ports.caller.CALLER`. They return None for what
    this provider does not have. They and `subscribe` raise `CallerError` or `ConnectionError` for what it cannot give
    now. `actor` is who asks, for providers that serve each actor with its own session or credentials.
    """

    @property
    def name(self) -> str:
        """The name of the source."""
        ...

    async def list_offers(self, kind: OfferKind) -> Sequence[JsonObject]:
        """Return all entries of one list."""
        ...

    async def read_resource(self, uri: str, actor: str | None) -> JsonObject | None:
        """Return the result of `resources/read`."""
        ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str], actor: str | None) -> JsonObject | None:
        """Return the result of `prompts/get`."""
        ...

    async def complete(self, params: JsonObject, actor: str | None) -> JsonObject | None:
        """Return the result of `completion/complete`; the params are those of the request."""
        ...

    def watch(self, changed: OfferChanged) -> None:
        """Report changed lists from now on."""
        ...

    async def subscribe(self, uri: str, changed: Callable[[], None], actor: str | None) -> Unsubscribe | None:
        """Call a function after each change of a resource that the actor may see, until the returned one is called.

        Returns None if changes of the resource are not noticed.
        """
        ...
