"""What an MCP server may offer besides tools: resources and prompts."""

from collections.abc import Callable

from agenttool.records import ClosedEnum


class OfferKind(ClosedEnum):
    """The lists of a server; the values are the members of the protocol's list results."""

    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"


OfferChanged = Callable[[OfferKind], None]
"""Takes the list that changed; called in the event loop, and returns at once."""

Unsubscribe = Callable[[], None]
"""Ends a subscription."""
