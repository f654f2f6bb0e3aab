"""By which name one of our own tools is called on a surface: by its own, unless another tool there has it, too."""

from agenttool.catalog.entry import BUILT_IN
from agenttool.catalog.fates import Fates

FINDER = "tool_search"
"""The name of the tool by which a model finds and loads the others."""


def qualified(name: str) -> str:
    """Give the name of one of our tools that no other tool can have."""
    return f"{BUILT_IN}.{name}"


def spoken(fates: Fates, name: str) -> str:
    """Give the shortest name that leads to one of our tools, whatever may be loaded here later."""
    names = fates.roster.names.qualified
    whole = qualified(name)
    is_shared = any(fates.codes[each] and names[each] != whole for each in fates.roster.bearers(name))
    return whole if is_shared else name
