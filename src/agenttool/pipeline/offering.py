"""The tools of a surface as a model may be shown them."""

from agenttool.catalog.surface import Surface
from agenttool.pipeline.tool import model_schema_of
from agenttool.ports.offer import OfferedTool
from agenttool.ports.tool import DeclaredTool
from agenttool.records import InputContract


def offered_on(surface: Surface, *, deferred: bool) -> tuple[OfferedTool, ...]:
    """List what a surface shows, what was offered on it since it was made, and if wanted what it defers."""
    since = {each.tool_id: each for each in surface.extra.values() if each.tool_id not in surface.shown}
    shown = (*surface.shown.values(), *(since[each] for each in sorted(since)))
    waiting = surface.loadable.values() if deferred else ()
    return (
        *(_offered(entry.tool, is_deferred=False) for entry in shown),
        *(_offered(entry.tool, is_deferred=True) for entry in waiting),
    )


def _offered(declared: DeclaredTool, *, is_deferred: bool) -> OfferedTool:
    contract = declared.declaration.input_contract or InputContract()
    said = (declared.interface.strict, contract.strict)
    return OfferedTool(
        tool_id=declared.declaration.tool_id,
        namespace=declared.declaration.namespace,
        name=declared.declaration.name,
        description=declared.declaration.description,
        input_schema=model_schema_of(declared),
        strict=False if False in said else True if True in said else None,
        is_deferred=is_deferred,
    )
