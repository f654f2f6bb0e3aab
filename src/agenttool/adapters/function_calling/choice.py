"""The tool that a request wants to be called: found by any of its names, or an error that says which to use."""

from collections.abc import Callable

from agenttool.adapters.function_calling.menu import Menu
from agenttool.errors import ConfigError
from agenttool.records import UNSET, Json, UnsetType

_WORDS = (None, "auto", "none", "required")


def chosen_name(menu: Menu) -> str | None:
    """Give the provider's name of the tool that must be called; none if the choice is one of the words, or nothing.

    Raises:
        ConfigError: it names no tool that is sent, or several.
    """
    wish = menu.wishes.tool_choice
    if wish in _WORDS:
        return None
    found = [wish] if wish in menu.shown else _named(menu, wish)
    if len(found) > 1:
        owners = ", ".join(sorted(repr(menu.shown[name].tool.qualified_name) for name in found))
        raise ConfigError(f"tool_choice names {wish!r}, which {len(found)} tools answer to; name one of {owners}")
    if not found:
        raise ConfigError(f"tool_choice names {wish!r}, which is not sent{_why_not(menu, wish)}")
    if menu.shown[found[0]].tool.is_deferred:
        raise ConfigError(f"tool_choice names {wish!r}, which waits to be loaded; load it first, with `tools.load`")
    return found[0]


def as_sent(spell: Callable[[Menu], Json], menu: Menu) -> Json | UnsetType:
    """Give the choice as a request spells it, for the record of a call; one that cannot be sent was in no request."""
    try:
        choice = spell(menu)
    except ConfigError:
        return UNSET
    return UNSET if choice is None else choice


def _named(menu: Menu, wish: str) -> list[str]:
    tools = {name: each.tool for name, each in menu.shown.items()}
    by_name = [name for name, tool in tools.items() if wish == tool.qualified_name]
    by_name = by_name or [name for name, tool in tools.items() if wish == tool.name]
    return by_name or [name for name, tool in tools.items() if wish == tool.tool_id]


def _why_not(menu: Menu, wish: str) -> str:
    left_out = next((each for each in menu.left_out if wish in (each.name, each.tool_id)), None)
    if left_out is not None:
        return f": {left_out.message}; {left_out.would_change}"
    if any(wish in (each.name, f"{each.namespace}.{each.name}", each.tool_id) for each in menu.waiting):
        return ", because it waits to be loaded; load it first, with `tools.load`"
    return "; name a tool of the surface, or use auto, none or required"
