"""Why a model can or cannot see a tool, in one sentence."""

from agenttool.records import AbsentTool, DeferredToolRef, ToolDeclaration, ToolSurface


def why(name: str, declarations: list[ToolDeclaration], surface: ToolSurface) -> list[str]:
    """Say for each tool that answers to a name what became of it on a surface; nothing if there is none."""
    return [_fate(each, surface) for each in declarations if name in _names(each)]


def _names(declaration: ToolDeclaration) -> tuple[str, ...]:
    qualified = f"{declaration.namespace}.{declaration.name}"
    return (qualified, declaration.name, declaration.tool_id, *(declaration.aliases or ()))


def _fate(declaration: ToolDeclaration, surface: ToolSurface) -> str:
    name, tool_id = f"{declaration.namespace}.{declaration.name}", declaration.tool_id
    absent = (*(surface.blocked_tools or ()), *(surface.excluded_tools or ()))
    left_out = next((each for each in absent if each.tool_id == tool_id), None)
    deferred = [each for each in surface.deferred_tools or () if isinstance(each, DeferredToolRef)]
    if left_out is not None:
        return f"{name} is not on the surface: {_reason(left_out)}"
    if any(each.tool_id == tool_id for each in deferred):
        return f"{name} is deferred: a model finds it by search, and sees its schema once it is loaded"
    if tool_id in (surface.loaded_tools or ()):
        return f"{name} is loaded: a model sees it"
    return f"{name} is deprecated: it can be called, and a model is not shown it"


def _reason(absent: AbsentTool) -> str:
    change = f"; to change that: {absent.would_change}" if absent.would_change else "; nothing would change that"
    return f"{absent.message} ({absent.reason}){change}"
