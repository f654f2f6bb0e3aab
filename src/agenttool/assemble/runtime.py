"""The runtime that people open: settings and tools in, everything joined."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import random
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from agenttool.adapters.function_calling.tool_payload import ToolRequestOptions
from agenttool.adapters.rap.settings import RapSource
from agenttool.assemble.given import Tool, all_of, declared, listed, one, refuse_without_loop
from agenttool.assemble.settings import (
    circumstances_of,
    place_of,
    refuse_twins,
    rules_of,
    settings_of,
    sources_of,
    surface_policy,
    with_commands,
    workspace_of,
)
from agenttool.errors import ConfigError, StoreError
from agenttool.hooks.definition import Hook
from agenttool.journal.steps import STEPS
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.policy.votes import PermissionMode
from agenttool.ports.advice import Adviser
from agenttool.ports.limits import RateLimit
from agenttool.ports.semantic_index import SemanticIndex
from agenttool.ports.source import Host
from agenttool.ports.surfacing import Circumstances, ProviderState, SurfacePolicy
from agenttool.ports.tool import DeclaredTool
from agenttool.providers import ModelTools
from agenttool.records import ToolId, ToolSurface
from agenttool.runtime import Runtime as _Runtime
from agenttool.runtime import World
from agenttool.stores.location import open_store
from agenttool.world import SystemClock, UniqueIds

if TYPE_CHECKING:
    from agenttool.adapters.rap.session import Rap

Closing = Callable[[], Awaitable[None]]

SHORTEST_LEASE_S = 1.0
"""A process says a few times a second that it lives; with less than this it could be taken for dead all the same."""


class Runtime(_Runtime):
    """Governed tool calls: `async with Runtime.open(tools=[...]) as rt`.

    Attributes:
        rap: what there is of RAP, once the runtime is entered and has such sources.
    """

    rap: "Rap | None" = None
    _sources: Sequence[RapSource] = ()
    _callback_url: str | None = None
    _serves: bool = False
    _sourced: "set[ToolId]"

    @classmethod
    def open(  # noqa: PLR0913 -- the settings of a runtime, each with a default
        cls,
        *,
        store: str | None = None,
        payloads: str | None = None,
        config: str | Path | None = None,
        tools: Iterable[Tool] = (),
        rules: str | Path | Iterable[Rule] = (),
        hooks: Iterable[Hook] = (),
        rate_limits: Mapping[str, RateLimit] | None = None,
        advisers: Iterable[Adviser] = (),
        mode: str | None = None,
        interactive: bool | None = None,
        lease_s: float = 6.0,
        thread: str | None = None,
        surface: SurfacePolicy | None = None,
        circumstances: Circumstances | None = None,
        search_model: str | Path | None = None,
        sources: Iterable[RapSource] = (),
        callback_url: str | None = None,
    ) -> Self:
        """Make a runtime for the running event loop.

        Args:
            store: where the journal is kept: `memory:`, or `sqlite:PATH`, which outlives this process; if left out,
                where the settings file says, and else in memory.
            payloads: a folder or an object store's URL for large results; a folder beside the file if left out.
            config: a settings file with `[[rules]]`, `[[hooks]]`, `[store]` and `[surface]`.
            tools: decorated functions, plain functions, or tools declared by records.
            rules: besides those of the settings file; or the settings file itself.
            hooks: in the order they are asked; those of the settings file come after them.
            rate_limits: how often the tools of a namespace may be called altogether.
            advisers: classifiers and policy engines that are heard before the rules decide.
            mode: how much goes without asking, such as `default` or `read_only`.
            interactive: whether anybody can be asked; if not, a question is a deny.
            lease_s: on a store that outlives this process, how soon after its death others take up its calls.
            thread: the name of the conversation that calls are made in; a fresh one if left out.
            surface: how many tools a surface shows before they wait to be searched for; a hundred if left out.
            circumstances: which credentials, gates, skills and the like there are to begin with; `change` tells more.
            search_model: the folder of a sentence-embedding model, so that search looks at meanings, too.
            sources: servers whose tools are found when the runtime is entered; those of the settings file come first.
            callback_url: where others reach what serves this runtime; without it, where the settings say, or where
                another process of the store is served, or a port of its own on this machine.

        Raises:
            ConfigError: something about the tools, the rules, the hooks or the store is wrong, or no event loop runs.
        """
        refuse_without_loop()
        settings, rules = settings_of(config, rules)
        book = RuleBook((*rules_of(settings), *all_of("rules", rules, Rule)))
        wanted = settings.mode or PermissionMode.DEFAULT if mode is None else mode
        if wanted not in list(PermissionMode):
            place = f"{settings.mode_place}: " if mode is None else ""
            raise ConfigError(f"{place}no permission mode is called {wanted!r}; use one of {', '.join(PermissionMode)}")
        if interactive not in (True, False, None):
            raise ConfigError(f"interactive must be true, false or left out, got {interactive!r}; use one of them")
        if not isinstance(cast("object", lease_s), int | float) or not lease_s >= SHORTEST_LEASE_S:
            raise ConfigError(f"lease_s must be a number of seconds from {SHORTEST_LEASE_S} on, got {lease_s!r}")
        asked = settings.interactive if interactive is None else interactive
        policy = Policy(
            book=book,
            mode=PermissionMode(wanted),
            interactive=True if asked is None else asked,
            workspace=workspace_of(settings),
        )
        chosen = [declared(each) for each in listed("tools", tools)]
        standing = with_commands(all_of("hooks", hooks, Hook), settings)
        place, folder = place_of(settings, store, payloads)
        semantic_index = _semantic_index(search_model or settings.search_model)
        kept = open_store(place, STEPS, folder)
        world = World(
            clock=SystemClock(),
            ids=UniqueIds(),
            log=kept.log,
            payloads=kept.payloads,
            open_calls=kept.open_calls,
            shelf=kept.shelf,
            close=_closing(kept.close, semantic_index),
            random=random,
            lease_s=lease_s,
            thread=thread or "thr_" + UniqueIds().unique(),
            semantic_index=semantic_index,
        )
        made = cls(
            world,
            tools=chosen,
            hooks=standing,
            policy=policy,
            rate_limits=rate_limits,
            advisers=all_of("advisers", advisers, Adviser),
            surface_policy=surface_policy(settings.surface) if surface is None else one(surface, SurfacePolicy),
            circumstances=circumstances_of(settings.surface)
            if circumstances is None
            else one(circumstances, Circumstances),
        )
        made._sourced = set()
        made._sources = (*sources_of(settings), *all_of("sources", sources, RapSource))
        made._callback_url = callback_url or (settings.server.reached if settings.server is not None else None)
        made._serves = callback_url is not None
        refuse_twins(made._sources)
        return made

    async def __aenter__(self) -> Self:
        """Use the runtime: its sources are asked for their tools, and calls of processes that died are taken up.

        A source that is away costs only its own tools, which come when it does.

        Raises:
            StoreError: the store cannot be written.
            ConfigError: another process of the store is served under another `callback_url`.
        """
        if self._sources and self._core.parent is None:
            self.rap = await self._open_sources()
            self._core.asked_again_in = self.rap.asked_again_in
        await super().__aenter__()
        if self.rap is not None and self._core.parent is None:
            self.rap.keep_asking()
            if self._prompts is not None:
                self._prompts.start()
        return self

    def declare(self, tool: Tool) -> None:
        """Add a tool, whatever stands for it, or replace the one with the same id; surfaces keep what they had.

        Raises:
            ConfigError: it is no tool, or `Runtime.open` would not take it either.
        """
        super().declare(declared(tool))

    async def _open_sources(self) -> "Rap":
        # Loaded only for who has such sources: it brings a client and a server for HTTP.
        from agenttool.adapters.rap.session import Rap  # noqa: PLC0415 -- see above

        core = self._core
        if core.shelf is None:
            raise ConfigError("sources need a store; open the runtime with one")
        host = Host(
            door=self,
            shelf=core.shelf,
            thread=core.thread,
            now_ns=core.now_ns,
            unique=core.ids.unique,
            secret=core.ids.secret,
            declare=self._take,
            hear=self._hear,
        )
        try:
            return await Rap.open(self._sources, host, self._callback_url, serves=self._serves)
        except BaseException:
            if self._end_world is not None:
                await self._end_world()  # nobody will leave what could not be entered
            raise

    def _take(self, tool: DeclaredTool) -> None:
        """Add a tool of a source, or another state of it; never in the place of one that somebody else declared."""
        tool_id = tool.declaration.tool_id
        if tool_id not in self._sourced and self._catalog.find(tool_id) is not None:
            raise ConfigError(f"another tool has the id {tool_id!r} already; give that one or the source another name")
        self.declare(tool)
        self._sourced.add(tool_id)

    async def _hear(self, providers: Mapping[str, ProviderState]) -> None:
        """Show the tools there are by now, and let calls of theirs come to their ends that waited for them."""
        # A server that is awaited has no tools yet: what is there under its name is somebody else's, and need not wait.
        others = {entry.tool.declaration.namespace for entry in self._catalog}
        await self._surfacing.set_provider_states(
            {name: ProviderState.READY if name in others else state for name, state in providers.items()}
        )
        if self._recovery is not None and self._core.has_lease:
            with suppress(StoreError):  # it is tried again soon anyway
                await self._recovery.recover()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take no more calls, stop what still runs, and leave what waits to the next process, if the store does."""
        if self.rap is not None and self._core.parent is None:
            await self.rap.stop_listening()
        await super().__aexit__(kind, error, trace)
        if self.rap is not None and self._core.parent is None:
            await self.rap.close()

    async def tools_for(
        self,
        provider: str,
        *,
        surface: ToolSurface | None = None,
        tool_choice: str | None = None,
        parallel_tool_calls: bool | None = None,
        strict: bool = True,
        native_search: bool = True,
    ) -> ModelTools:
        """Give the tools of a surface in the format of a model's provider, for one conversation.

        Args:
            provider: `openai` (chat completions), `openai_responses`, `anthropic` or `gemini`.
            surface: one that was made here; a new one for the session if left out.
            tool_choice: `auto`, `none`, `required`, or the name of a tool; the surface's own if left out.
            parallel_tool_calls: whether a model may ask for several calls at once.
            strict: strict schemas where they can be had without changing what is accepted.
            native_search: let the provider's own tool search find deferred tools, where there is one.

        Raises:
            ConfigError: there is no such format or surface.
        """
        chosen = await self.surface("session") if surface is None else surface
        default = chosen.default_tool_choice if isinstance(chosen.default_tool_choice, str) else None
        options = ToolRequestOptions(
            tool_choice=tool_choice or default,
            parallel_tool_calls=parallel_tool_calls,
            strict=strict,
            native_search=native_search,
        )
        return ModelTools(self, chosen, provider, options)


def _closing(close: Closing | None, semantic_index: SemanticIndex | None) -> Closing:
    """End what works in the background together with the store."""

    async def both() -> None:
        if semantic_index is not None:
            semantic_index.close()
        if close is not None:
            await close()

    return both


def _semantic_index(model: str | Path | None) -> SemanticIndex | None:
    """Load the embedding model that search uses, if one is configured.

    Raises:
        ConfigError: it cannot be used, or the optional extra is not installed.
    """
    if model is None:
        return None
    from agenttool.adapters.embedding.model import open_model  # noqa: PLC0415 -- only who wants it pays for it

    opened = open_model(Path(model))
    from agenttool.adapters.embedding.embedding_index import EmbeddingIndex  # noqa: PLC0415 -- needs the extra, which is there now

    return EmbeddingIndex(opened, Path(model))
