"""The methods of `Runtime` about surfaces, and what it is: its conversation and its store."""

from collections.abc import Iterable
from typing import Unpack

from agenttool.codec import clone
from agenttool.errors import ConfigError
from agenttool.pipeline.agent import Agent
from agenttool.pipeline.approval_queue import ApprovalQueue
from agenttool.pipeline.inspection import Inspection
from agenttool.pipeline.journal_view import JournalView
from agenttool.pipeline.prompts import DeferredCalls, PromptQueue
from agenttool.pipeline.read_back import digest_in
from agenttool.pipeline.services import PayloadReader
from agenttool.pipeline.surface_options import Changes, SurfaceContext, surface_request
from agenttool.pipeline.surfaces import offered_tools
from agenttool.policy.rule_settings import rules_in
from agenttool.ports.deferred import Thread
from agenttool.ports.offer import OfferedTool
from agenttool.ports.stores import DocumentStore
from agenttool.records import InvocationId, JsonObject, SurfaceId, ToolSearchResult, ToolSurface


class SurfaceAccess:
    """The surfaces of one agent, and its approvals, journal, deferred calls and prompts.

    It is the part of `Runtime` that makes no calls and opens nothing; `Runtime` adds both, and has no other base.
    """

    approvals: ApprovalQueue
    journal: JournalView

    def _bind(self, agent: Agent) -> None:
        """Make this the interface of an agent."""
        self._agent, self._core, self._surfaces = agent, agent.core, agent.surfacing.surfaces
        self.approvals = ApprovalQueue(agent.core, agent.recovery, agent.remembered)
        self.journal = JournalView(agent.core, agent.catalog, self._surfaces)
        self.deferred = DeferredCalls(agent.results, agent.prompts, lambda: self._surfaces.is_closed)
        self.prompts = PromptQueue(agent.prompts)
        self.inspection = Inspection(agent)

    def _check_open(self) -> None:
        if self._surfaces.is_closed:
            raise ConfigError("this runtime is closed; open another one")

    async def surface(
        self, scope: str = "turn", *, only: Iterable[str] | None = None, **context: Unpack[SurfaceContext]
    ) -> ToolSurface:
        """Create a surface: which tools are loaded, deferred or absent in one context, and why.

        Args:
            scope: how long it is meant to be used: `turn`, `session` or another scope of the standard.
            only: the names of the only tools that it may show. Default: all tools.
            context: the role, the model and more; all are optional.

        Raises:
            ConfigError: an argument is invalid, or the runtime is closed.
        """
        self._check_open()
        return self._agent.surfacing.create(surface_request(scope, only, context))

    def find_surface(self, surface_id: str) -> ToolSurface | None:
        """Return the surface with an id; None if it is unknown."""
        self._check_open()
        found = self._surfaces.with_id(SurfaceId(surface_id))
        return None if found is None else found.record

    def current(self, surface: ToolSurface) -> ToolSurface:
        """Return the surface that replaced this one, because a model loaded tools or something changed.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        self._check_open()
        return self._agent.surfacing.current(surface)

    def refresh(self, surface: ToolSurface) -> ToolSurface:
        """Return the latest version of this surface; unlike `current`, with the tools that were declared since.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        self._check_open()
        return self._agent.surfacing.refresh(surface)

    def offered(self, surface: ToolSurface, *, deferred: bool = True) -> tuple[OfferedTool, ...]:
        """Return the tools of a surface as a model may be shown them, deferred ones last.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        self._check_open()
        return offered_tools(self._surfaces.get(surface), deferred=deferred)

    def default_surface(self) -> ToolSurface:
        """Return the surface of calls that name none: every tool that can be called; it never defers one.

        Another one replaces it as soon as tools are declared or the situation changes, so its id says whether
        something has changed.

        Raises:
            ConfigError: the runtime is closed.
        """
        found = self._or_default(None)
        if found is None:
            raise ConfigError("this runtime is closed; open another one")
        return found

    def tool_names(self) -> tuple[str, ...]:
        """Return the qualified names of all declared tools, sorted; those that cannot be called now included."""
        self._check_open()
        return tuple(sorted(entry.qualified_name for entry in self._agent.catalog))

    def offer_read_result(self) -> None:
        """Offer the tool that reads stored output on every surface from now on, not only once there is such output."""
        self._check_open()
        self._agent.offer_read_back(None)

    async def may_read(self, payload: str, *, actor_ref: str | None = None) -> bool:
        """Return whether an actor may read stored output in this conversation; `payload` is its URI or its digest.

        Raises:
            StoreError: the store cannot be read.
        """
        digest, reader = digest_in(payload), PayloadReader(self._core.thread, actor_ref)
        return digest is not None and await self._core.payloads.may_read(reader, digest)

    async def search(self, query: str, *, surface: ToolSurface | None = None, limit: int = 10) -> ToolSearchResult:
        """Find tools that a surface shows or defers: by words, or exactly, as in `select:name,other_name`.

        Without a surface, it searches all tools that can be called.

        Raises:
            ConfigError: there is no such surface, the query or the limit is invalid, or the runtime is closed.
        """
        self._check_open()
        return await self._agent.surfacing.search(self._or_default(surface), query, limit)

    def _or_default(self, surface: ToolSurface | None) -> ToolSurface | None:
        """Return the surface, or else the default one; None if there is none, because the runtime is closed."""
        return self._surfaces.default or self._agent.surfacing.default() if surface is None else surface

    async def prepare_search(self, *, seconds: float = 60.0) -> bool:
        """Index all tools now and wait for the search model. Optional: a search indexes tools itself.

        Returns whether every tool can be found by its meaning, if there is a model. A model that is not ready in
        time continues in the background.

        Raises:
            ConfigError: the runtime is closed.
        """
        self._check_open()
        return await self._agent.surfacing.prepare_search(seconds)

    async def load(self, found: ToolSearchResult | Iterable[str], *, surface: ToolSurface | None = None) -> ToolSurface:
        """Create a surface for a model that also shows deferred tools; return the same one if it shows them already.

        Args:
            found: the result of a search, or the names of tools.
            surface: the surface to extend. Default: a new one that shows all tools.

        Raises:
            ConfigError: there is no such surface, a name leads to no tool there, or the runtime is closed.
        """
        self._check_open()
        before = await self.surface("session") if surface is None else surface
        return self._agent.surfacing.load(before, found)

    async def change(self, **changes: Unpack[Changes]) -> dict[SurfaceId, ToolSurface]:
        """Change the policy or the circumstances of all surfaces: `await rt.change(credentials=["github"])`.

        The change applies at once, also on existing surfaces: tools that are absent now cannot be called. Returns
        the renewed surfaces by the ids of those they replace.

        Raises:
            ConfigError: a change is invalid, or the runtime is closed; then nothing has changed.
        """
        self._check_open()
        if "rules" in changes:
            changes["rules"] = rules_in(changes["rules"])
            self._agent.check_rules(changes["rules"])
        return await self._agent.surfacing.change(changes)

    @property
    def shared(self) -> JsonObject:
        """A copy of the context that calls share and tools change."""
        return clone(self._core.shared)

    @property
    def thread(self) -> Thread:
        """The conversation of the calls."""
        return self._core.thread

    @property
    def documents(self) -> DocumentStore | None:
        """Small documents beside the journal, for parts of a program that must survive it; None if there are none."""
        return self._core.durability.documents

    @property
    def is_durable(self) -> bool:
        """Whether another process can recover the calls of this one."""
        return self._core.durable

    @property
    def store_fault(self) -> str | None:
        """Why the durable store could not be used at the last check, seconds ago; None if it could."""
        return None if self._agent.recovery is None else self._agent.recovery.fault

    def open_calls(self) -> tuple[InvocationId, ...]:
        """Return the ids of the open calls of this process, recovered ones included."""
        return tuple(call.invocation_id for call in self._agent.open_calls)

    async def recover(self) -> int:
        """Recover the calls of processes that died, now; return how many."""
        return 0 if self._agent.recovery is None else await self._agent.recovery.recover()
