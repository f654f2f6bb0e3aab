"""The tools that a source of servers has declared: each is declared again only if it changed."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from agenttool.ports.tool import DeclaredTool
from agenttool.records import Lifecycle, ToolId
from agenttool.records import replace as replace_record

_DECLARED_AT_A_TIME = 50
"""How many tools are declared before the event loop runs other work: a server may have very many."""


@dataclass(slots=True, eq=False)
class DeclaredTools:
    """The declared tools of one source, by id, as the runtime accepted them last."""

    by_id: dict[ToolId, DeclaredTool] = field(default_factory=dict)

    async def update(
        self, tools: Sequence[DeclaredTool], declare: Callable[[DeclaredTool], str | None], sources: Iterable[str]
    ) -> list[str]:
        """Declare new and changed tools, and those of the named sources that are gone as disabled.

        A tool that is gone stays declared, because its waiting calls can still end. Return why the runtime rejected
        some of the tools.
        """
        present, named = {each.declaration.tool_id for each in tools}, frozenset(sources)
        gone = (
            replace(each, declaration=replace_record(each.declaration, lifecycle=Lifecycle.DISABLED))
            for tool_id, each in self.by_id.items()
            if tool_id not in present and each.declaration.namespace in named
        )
        faults: list[str] = []
        for count, tool in enumerate((*tools, *gone), 1):
            declaration = tool.declaration
            before = self.by_id.get(declaration.tool_id)
            if before is None or _records_of(tool) != _records_of(before):
                fault = declare(tool)
                if fault is None:
                    self.by_id[declaration.tool_id] = tool
                else:
                    faults.append(f"{declaration.name!r} of {declaration.namespace!r} cannot be offered: {fault}")
            if not count % _DECLARED_AT_A_TIME:
                await asyncio.sleep(0)
        return faults


def _records_of(tool: DeclaredTool) -> tuple[object, ...]:
    return tool.declaration, tool.interface, tool.execution_profile, tool.permission_profile
