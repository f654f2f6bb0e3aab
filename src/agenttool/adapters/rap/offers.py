"""The tools of all servers, as a runtime has them: declared when their server has said so, and anew if that changes."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from agenttool.adapters.rap.addresses import Addresses
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.declare import Toolset, declare, source_name_in
from agenttool.adapters.rap.execute import RapExecutor
from agenttool.adapters.rap.later import RapLater
from agenttool.adapters.rap.notices import Notices
from agenttool.adapters.rap.threads import Threads
from agenttool.adapters.rap.wire import Manifest, ToolDefinition
from agenttool.errors import ConfigError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Lifecycle, ToolId

_AT_A_TIME = 50
"""So many tools are looked at in one go."""


@dataclass(slots=True, kw_only=True, eq=False)
class Offers:
    """What was declared of each tool, and what it takes to declare one."""

    take: Callable[[DeclaredTool], None]
    couriers: Mapping[str, Courier]
    notices: Notices
    addresses: Addresses
    threads: Threads
    now_ns: Callable[[], int]
    _declared: dict[ToolId, Lifecycle] = field(default_factory=dict[ToolId, Lifecycle])

    async def renew(self, toolsets: Iterable[Toolset]) -> tuple[str, ...]:
        """Declare what is new, or withheld by now; say of which tools the runtime will have none, and why.

        A few at a time: a server that comes late with very many tools must not hold up whatever else goes on.
        """
        faults: list[str] = []
        for count, fault in enumerate(chain.from_iterable(map(self._offer, toolsets)), 1):
            if fault is not None:
                faults.append(fault)
            if not count % _AT_A_TIME:
                await asyncio.sleep(0)
        return tuple(faults)

    @property
    def offered(self) -> Mapping[str, str]:
        """The names that are offered, and by which source: what somebody may be using."""
        held = (tool_id for tool_id, lifecycle in self._declared.items() if lifecycle is Lifecycle.AVAILABLE)
        return {tool_id.rpartition(".")[2]: source_name_in(tool_id) for tool_id in held}

    def knows(self, tool_id: ToolId) -> bool:
        """Tell whether the runtime has a tool, offered or not."""
        return tool_id in self._declared

    def _offer(self, toolset: Toolset) -> Iterator[str | None]:
        """Give for each tool that was looked at why the runtime will have none, or nothing."""
        if toolset.manifest is None:
            return
        for tool in toolset.tools:
            made = self._made(toolset, toolset.manifest, tool)
            tool_id, lifecycle = made.declaration.tool_id, made.declaration.lifecycle
            fault = None
            if self._declared.get(tool_id) is not lifecycle:
                try:
                    self.take(made)
                    self._declared[tool_id] = lifecycle
                except ConfigError as error:
                    fault = f"{tool.name!r} of {toolset.source.name!r} cannot be offered: {error}"
            yield fault

    def _made(self, toolset: Toolset, manifest: Manifest, tool: ToolDefinition) -> DeclaredTool:
        source = toolset.source
        courier = self.couriers[source.name]
        executor = RapExecutor(
            source=source,
            manifest=manifest,
            operation=tool.name,
            courier=courier,
            addresses=self.addresses,
            threads=self.threads,
            now_ns=self.now_ns,
        )
        later = RapLater(source=source, courier=courier, notices=self.notices, addresses=self.addresses)
        return declare(toolset, manifest, tool, executor, later)
