"""The tools of a surface as a model may be shown them."""

from agenttool.catalog.surface import Surface
from agenttool.pipeline.core import Core
from agenttool.pipeline.tool import Tool
from agenttool.ports.offer import OfferedTool
from agenttool.records import InputContract


def offered_on(core: Core, surface: Surface, *, deferred: bool) -> tuple[OfferedTool, ...]:
    """List what a surface shows, what was offered on it since it was made, and if wanted what it defers."""
    since = {each.tool_id: each for each in surface.extra.values() if each.tool_id not in surface.shown}
    shown = [core.tools[entry] for entry in (*surface.shown.values(), *(since[each] for each in sorted(since)))]
    waiting = [core.tools[entry] for entry in surface.loadable.values()] if deferred else []
    return (
        *(_offered(tool, is_deferred=False) for tool in shown),
        *(_offered(tool, is_deferred=True) for tool in waiting),
    )


def _offered(tool: Tool, *, is_deferred: bool) -> OfferedTool:
    declared = tool.entry.tool
    contract = declared.declaration.input_contract or InputContract()
    said = (declared.interface.strict, contract.strict)
    return OfferedTool(
        tool_id=tool.tool_id,
        namespace=declared.declaration.namespace,
        name=declared.declaration.name,
        description=declared.declaration.description,
        input_schema=tool.model_schema,
        strict=False if False in said else True if True in said else None,
        is_deferred=is_deferred,
    )
