"""The public class `Runtime`: declare tools, create surfaces, make calls, decide approvals, read the journal."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, Unpack

from agenttool.adapters.function_calling.tool_payload import ToolRequestOptions
from agenttool.adapters.python.source import Tool, checked_objects, declared, provided
from agenttool.agent.agent import Agent, World
from agenttool.agent.attached_sources import AttachedSources, SourceFaults, SourceManager
from agenttool.agent.batch import BatchItem, make_batch
from agenttool.agent.builtin_tools import reject_builtin_names
from agenttool.agent.call_access import CallAccess, CallHandle
from agenttool.agent.journal_view import JournalView
from agenttool.agent.surface_access import Inspection, SurfaceAccess
from agenttool.agent.surface_options import SurfaceContext, surface_request
from agenttool.assemble.approving import Approval, make_questions
from agenttool.assemble.checks import as_list, as_list_of, require_loop
from agenttool.assemble.credentials import GivenCredential, make_credentials
from agenttool.assemble.reload import AppliedSettings
from agenttool.assemble.settings import (
    add_command_hooks,
    find_store,
    make_circumstances,
    make_policy,
    make_surface_policy,
    open_world,
    read_settings,
)
from agenttool.assemble.sources import make_sources
from agenttool.call.plan import all_are, plan
from agenttool.call.run import run_call
from agenttool.call.services import CredentialVault, OpenQuestions
from agenttool.codec import read, write
from agenttool.config import Config
from agenttool.durable.approval_queue import ApprovalQueue
from agenttool.durable.background import key_of_caller, unique_part
from agenttool.durable.deferred_results import DeferredCalls, PromptQueue
from agenttool.errors import ConfigError
from agenttool.hooks.definition import Hook
from agenttool.policy.approvals import Approver
from agenttool.policy.decide import Policy
from agenttool.policy.rule_settings import RuleOption, rules_in
from agenttool.policy.rules import RuleBook
from agenttool.policy.votes import PermissionMode
from agenttool.ports.advice import Adviser
from agenttool.ports.calls import ToolCall
from agenttool.ports.deferred import Thread
from agenttool.ports.identity import DEFAULT_TENANT, Principal
from agenttool.ports.limits import RateLimit
from agenttool.ports.retriever import Retriever
from agenttool.ports.source import Source, SourceSettings
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.providers import ModelRun, ModelTools, RunOptions, check_options, provider_of, run_model
from agenttool.records import (
    AbortReason,
    InvocationId,
    JsonObject,
    SchedulerPolicy,
    SchedulerPolicyId,
    ToolResult,
    ToolSearchResult,
    ToolSurface,
)
from agenttool.stores.location import store_files, store_path

__all__ = ["Runtime", "World"]

_DEFAULT_POLICY = SchedulerPolicy(scheduler_policy_id=SchedulerPolicyId("sched_default"))


class Runtime:
    """Governed tool calls: `async with Runtime.open(tools=[...]) as rt`.

    A runtime belongs to one event loop. Every call returns a result; a call that failed is a result, too.

    Attributes:
        calls: open calls, and those that `start` started in any process: `get`, `open_ids`, `interrupt`, `recover`.
        surfaces: the surfaces that `surface` created: `current`, `refresh`, `offered`, `change`, `find`, `default`.
        approvals: the open approvals: `list`, `get`, `decide`; and the rules of earlier answers: `rules`, `forget`.
        journal: what happened: `invocation`, `result`, `events`, `payload`, `export`, `retain`.
        deferred: the calls that wait for a deferred result: `list`, `get`, `unsettled`, `deliver`.
        prompts: what those calls ask people: `list`, `choose`.
        sources: where tools come from besides `tools=`: `status`, `get`, `find`.
        inspection: what other parts of the package read, such as the state of the store: `store_fault`; not in `sync`.
    """

    _is_view = False  # whether it is another runtime's view of one conversation

    def __init__(  # noqa: PLR0913 -- the parts of a runtime
        self,
        world: World,
        *,
        tools: Iterable[Tool] = (),
        hooks: Iterable[Hook] = (),
        policy: Policy | None = None,
        rate_limits: Mapping[str, RateLimit] | None = None,
        advisers: Iterable[Adviser] = (),
        surface_policy: SurfacePolicy | None = None,
        circumstances: Circumstances | None = None,
        sources: Iterable[Source] = (),
        callback_url: str | None = None,
        is_served: bool = False,
        questions: OpenQuestions | None = None,
        provide: Mapping[type, object] | None = None,
        settings: AppliedSettings | None = None,
    ) -> None:
        """Build a runtime from its parts, inside a running event loop. `open` builds the parts from options.

        Raises:
            ConfigError: a tool's records contradict each other.
        """
        self._on_close, self._settings = world.close, settings
        attached, faults = list(sources), SourceFaults()
        self.sources = AttachedSources(attached, faults)
        agent = Agent(
            world,
            policy=policy or Policy(),
            hooks=tuple(hooks),
            advisers=tuple(advisers),
            rate_limits=rate_limits or {},
            questions=questions or OpenQuestions(),
            prepare=partial(provided, provide=checked_objects(provide)),
            surface_policy=surface_policy or SurfacePolicy(),
            circumstances=circumstances or Circumstances(),
            sources=self.sources,
        )
        self._bind(agent)
        self._source_manager = SourceManager(
            attached, faults, agent=self._agent, results=self.deferred, public_url=callback_url, is_served=is_served
        )
        given = [*map(declared, tools)]
        for each in given:
            reject_builtin_names(each)
        self._agent.declare_new(given)
        if self._core.durable:  # output that an earlier process stored can be read back
            self._agent.offer_read_back(None)

    @classmethod
    def open(  # noqa: PLR0913 -- the settings of a runtime, each with a default
        cls,
        *,
        store: str | Path | None = None,
        payloads: str | None = None,
        config: str | Path | Config | None = None,
        tools: Iterable[Tool] = (),
        rules: str | Path | Iterable[RuleOption] = (),
        hooks: Iterable[Hook] = (),
        rate_limits: Mapping[str, RateLimit] | None = None,
        advisers: Iterable[Adviser] = (),
        mode: str | None = None,
        approve: Approval | None = None,
        provide: Mapping[type, object] | None = None,
        lease_s: float = 6.0,
        thread: str | None = None,
        surface: SurfacePolicy | None = None,
        circumstances: Circumstances | None = None,
        credentials: Mapping[str, GivenCredential] | None = None,
        search_model: str | Path | None = None,
        retriever: Retriever | None = None,
        sources: Iterable[Source | SourceSettings] = (),
        callback_url: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Self:
        """Return a runtime for the running event loop; connect its sources with `async with`.

        Args:
            store: the journal's location: `memory:`, or a file that survives this process, as a path or `sqlite:PATH`.
                Default: the location in the settings file, else memory.
            payloads: a folder or an object store's URL for large results. Default: a folder beside the file.
            config: a settings file, or `"auto"` for those that the command line finds: agenttool.toml in the working
                directory or above, agenttool.local.toml beside it (if the user trusts them), and that of the user.
                Or a `Config`.
            tools: decorated functions, plain functions, or tools declared by records.
            rules: rules in addition to those of the settings file, each a `Rule` or a dictionary with the keys of a
                `[[rules]]` table; or the path of the settings file.
            hooks: hooks in the order in which they run; those of the settings file run after them.
            rate_limits: limits on the calls to all tools of a namespace.
            advisers: classifiers and policy engines that vote before the rules decide.
            mode: how much runs without an approval, such as `default` or `read_only`.
            approve: who answers when a call needs an approval. A function, plain or `async`, gets the `Question` and
                returns `"allow"`, `"deny"` or an `Edit`. `"wait"` leaves the answer to `rt.approvals`, the command line
                or another process. `"deny"` denies at once. Default: `"wait"` with a logged warning if the store is
                durable, else `"deny"`.
            provide: the objects for parameters that tools mark with `Inject`, by type: an object, or a function that
                makes one for each call; it may be async, or a generator that is closed after the call.
            lease_s: on a durable store, how soon after the death of this process another one recovers its calls.
            thread: the name of the conversation that calls are made in. Default: a new one.
            surface: how many tools a surface shows before the others are deferred. Default: a hundred.
            circumstances: the credentials, feature gates, skills and peers; `surfaces.change` updates them.
            credentials: secrets by name, each a text or a function that returns it; a tool that declares a name gets it
                as `ctx.credentials[name]`. They take precedence over `[credentials]` of the settings file.
            search_model: the folder of a sentence-embedding model, or `none` to search by words only. Default: the
                model that `agenttool[semantic]` installs, if it is installed.
            retriever: ranks tools in place of the built-in ranking; an object with the method of `Retriever`.
            sources: where more tools come from when the runtime is entered: objects with the methods of `Source`, or
                the settings of a server, such as a `RapServer`. Those of the settings file come first.
            callback_url: the URL at which servers reach this runtime. Default: the one in the settings, else that of
                another process on the store, else a port of its own on this machine.
            tenant: the name of the tenant. Its rules apply, and so do the rules without a tenant.

        Raises:
            ConfigError: an option or the settings file is invalid, or no event loop runs.
            StoreError: the store cannot be opened.
        """
        require_loop()
        settings, rules = read_settings(config, rules)
        rules, sources = tuple(as_list("rules", rules)), tuple(as_list("sources", sources))
        place, folder = find_store(settings, store, payloads)
        file = store_path(place)
        files = store_files(place, folder, tenant)
        policy = make_policy(settings, rules, mode, approve=approve, files=files, tenant=tenant)
        chosen = [declared(each) for each in as_list("tools", tools)]
        all_hooks = add_command_hooks(as_list_of("hooks", hooks, Hook), settings)
        all_advisers = as_list_of("advisers", advisers, Adviser)
        made = make_sources(settings, sources)
        secrets = make_credentials(settings, credentials)
        world = open_world(
            settings, place=place, payloads=folder, lease_s=lease_s, thread=thread, search_model=search_model
        )
        vault = CredentialVault(secrets, world.clock)
        return cls(
            replace(world, retriever=retriever, vault=vault),
            tools=chosen,
            hooks=all_hooks,
            policy=policy,
            rate_limits=rate_limits,
            advisers=all_advisers,
            surface_policy=make_surface_policy(settings.surface, surface),
            circumstances=vault.extend(make_circumstances(settings.surface, circumstances)),
            sources=made.sources,
            callback_url=callback_url or (settings.server.reached if settings.server is not None else None),
            is_served=callback_url is not None,
            questions=make_questions(approve, file, settings),
            provide=provide,
            settings=AppliedSettings(
                config=settings,
                initial=settings,
                rules=rules,
                mode=mode,
                approve=approve,
                files=files,
                tenant=tenant,
                given=sources,
                made=made,
            ),
        )

    async def reload(self, config: str | Path | Config) -> tuple[str, ...]:
        """Apply the rules and sources of changed settings, while calls run; `config` is as in `open`.

        A call that has started continues, also if its source is removed. Returns the names of other settings that have
        changed since `open`; they apply only to a new runtime.

        Raises:
            ConfigError: the settings are invalid, or this runtime has none; nothing has changed then.
            StoreError: the store cannot be written; nothing has changed then.
        """
        agent = self._agent.opened
        if self._settings is None or self._core.parent is not None:
            raise ConfigError("this runtime has no settings of its own; reload the one that Runtime.open returned")
        found, _ = read_settings(config, ())
        self._settings = await self._settings.apply(found, agent, self._source_manager)
        return self._settings.needs_restart

    async def __aenter__(self) -> Self:
        """Connect the sources, and start to recover calls of processes that died.

        A source that cannot connect costs only its own tools; `sources.status` has the reason.

        Raises:
            StoreError: the store cannot be written.
            ConfigError: a source rejects the deployment, such as its `callback_url`, or a rule can never match.
        """
        is_root = self._core.parent is None
        if is_root:
            try:
                await self._source_manager.connect()
                self._agent.check_rules(self._core.policy.book)
            except BaseException:
                await self._close_world()  # `__aexit__` does not run after a failed `__aenter__`
                raise
        await self._agent.recovery.start()
        if is_root and self.sources.names:
            self._agent.prompts.start()
        return self

    def __enter__(self) -> NoReturn:
        """Reject `with`, because closing waits.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "a runtime is opened with `async with`; in a plain function use `with agenttool.sync.open(...)`"
        )

    def __exit__(self, *error: object) -> None:
        """Do nothing: `__enter__` raises."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close this runtime."""
        await self.close()

    async def close(self) -> None:
        """Reject new calls, cancel running ones, and close the sources and the store; closing it again does nothing.

        Calls that wait for an answer are left to the next process, if the store is durable.
        """
        if self._is_view or self._agent.is_closed:
            return
        self._agent.close()
        await self._agent.stop_calls()
        if self._core.parent is None:
            await self._agent.stop()
            await self._close_world()

    async def _close_world(self) -> None:
        try:
            await self._source_manager.close()
        finally:
            if self._on_close is not None:
                await self._on_close()

    def _bind(self, agent: Agent) -> None:
        self._agent, self._core, self._surfaces = agent, agent.core, agent.surfacing.surfaces
        self.calls = CallAccess(agent, agent.core)
        self.surfaces = SurfaceAccess(agent)
        self.approvals = ApprovalQueue(agent.core, agent.recovery, agent.remembered)
        self.journal = JournalView(agent.core, agent.catalog, agent.surfacing.surfaces)
        self.deferred = DeferredCalls(agent.results, agent.prompts, lambda: agent.surfacing.surfaces.is_closed)
        self.prompts = PromptQueue(agent.prompts)
        self.inspection = Inspection(agent)

    def child(
        self,
        surface: ToolSurface,
        *,
        rules: Iterable[RuleOption] | None = None,
        mode: PermissionMode | None = None,
        interactive: bool | None = None,
    ) -> Self:
        """Return the runtime of a sub-agent, with the same journal and limits, and with the tools of one surface.

        Its rules can only tighten those of this runtime. Closing it cancels the calls that it started.

        Raises:
            ConfigError: the surface is not one of this runtime, or the runtime is closed.
        """
        book = None if rules is None else RuleBook(rules_in(rules))
        policy = self._core.policy.for_child(book=book, mode=mode, interactive=interactive)
        child = copy(self)
        child._bind(self._agent.opened.child(surface, policy))  # noqa: SLF001 -- same class
        return child

    def in_thread(self, thread: str | Thread, *, caller: str | None = None) -> Self:
        """Return a view of this runtime, with the same rules, for another conversation: a `Thread`, or a new child.

        Closing the view closes nothing. A `caller` with very many conversations loses the context of its oldest one.
        """
        chosen, other = self._core.thread.child(thread) if isinstance(thread, str) else thread, copy(self)
        other._is_view = True  # noqa: SLF001 -- same class
        other._core = self._agent.surfacing.view(self._core, chosen, caller)  # noqa: SLF001 -- same class
        other.calls = CallAccess(self._agent, other._core)  # noqa: SLF001 -- same class
        return other

    def declare(self, tool: Tool) -> None:
        """Add a tool, or replace the one with the same id. Existing surfaces do not change.

        A tool that is now retired, disabled or a draft is removed from every surface at once.

        Raises:
            ConfigError: it is no tool, its records contradict each other, its name is reserved or that of another tool,
                or the runtime is closed or belongs to a sub-agent.
        """
        agent = self._agent.opened
        if self._core.parent is not None:
            raise ConfigError("a sub-agent has the tools that it was given; declare this one on its parent's runtime")
        given = declared(tool)
        reject_builtin_names(given)
        agent.declare(given)

    def retire(self, name: str) -> None:
        """Remove a tool, by its qualified name or its id, from every surface at once.

        Each surface that showed it is replaced, with a `tool.surface.updated` event. `declare` offers it again.

        Raises:
            ConfigError: no tool has this name, it is built in, or the runtime is closed or belongs to a sub-agent.
        """
        self.declare(self._agent.retired(name))

    def call(
        self,
        name: str,
        arguments: JsonObject | str | bytes,
        *,
        surface: ToolSurface | None = None,
        native_call_id: str | None = None,
        actor_ref: str | Principal | None = None,
        idempotency_key: str | None = None,
    ) -> Coroutine[object, object, ToolResult]:
        """Call a tool by name: `await rt.call(...)`. A failed call is a result, too.

        Without a surface, the call reaches every tool that this runtime may call; a surface narrows that.

        A second call of an actor with the same idempotency key, at the same time or later, in any process on the store,
        does not run; it returns the result of the first. A key is known as long as the journal has its call.

        Raises (when awaited):
            asyncio.CancelledError: the caller's own task was canceled; the result is written first.
            ConfigError: the key was used for another tool or other arguments, or its call waits for the call that this
                code runs in; an invalid key raises it at once.
            StoreError: the key cannot be reserved.
        """
        if surface is None:
            surface = self._surfaces.default or self._agent.surfacing.default()
        call = plan(self._core, self._surfaces, name, arguments, surface, native_call_id, actor_ref)
        if idempotency_key is None:
            return run_call(call)
        return self._agent.background.call_once(call, key_of_caller(idempotency_key, actor_ref))

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
        return self._agent.opened.surfacing.create(surface_request(scope, only, context))

    async def search(self, query: str, *, surface: ToolSurface | None = None, limit: int = 10) -> ToolSearchResult:
        """Find tools that a surface shows or defers: by words, or exactly, as in `select:name,other_name`.

        Without a surface, it searches all tools that can be called.

        Raises:
            ConfigError: there is no such surface, the query or the limit is invalid, or the runtime is closed.
        """
        surfacing = self._agent.opened.surfacing
        return await surfacing.search(surfacing.default() if surface is None else surface, query, limit)

    async def load(self, found: ToolSearchResult | Iterable[str], *, surface: ToolSurface | None = None) -> ToolSurface:
        """Create a surface for a model that also shows deferred tools; return the same one if it shows them already.

        Args:
            found: the result of a search, or the names of tools.
            surface: the surface to extend. Default: a new one that shows all tools.

        Raises:
            ConfigError: there is no such surface, a name leads to no tool there, or the runtime is closed.
        """
        before = await self.surface("session") if surface is None else surface
        return self._agent.opened.surfacing.load(before, found)

    async def tools_for(
        self,
        provider: str,
        *,
        surface: ToolSurface | None = None,
        tool_choice: str | None = None,
        parallel_tool_calls: bool | None = None,
        strict: bool = True,
        native_search: bool = False,
    ) -> ModelTools:
        """Return the tools of a surface in the format of a model's provider, for one conversation.

        Args:
            provider: `openai` (chat completions), `openai_responses`, `anthropic` or `gemini`.
            surface: a surface of this runtime. Default: a new one that shows all tools.
            tool_choice: `auto`, `none`, `required`, or the name of a tool. Default: that of the surface.
            parallel_tool_calls: whether a model may request several calls at once.
            strict: whether to send strict schemas for tools whose schema has an equivalent strict form.
            native_search: whether to send deferred tools, too, so that the provider's own tool search finds them, if
                it has one. By default the model finds them by `tool_search`, and they are not sent.

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

    async def run(
        self, client: object, messages: str | Sequence[object] = (), *, model: str, **options: Unpack[RunOptions]
    ) -> ModelRun:
        """Let a model use the tools until it writes a final reply: `await rt.run(OpenAI(), "…", model="…")`.

        Args:
            client: a client of the SDKs of OpenAI, Anthropic or Google, synchronous or asynchronous.
            messages: the question, or the conversation in the provider's format. A list is extended in place, so that
                no turn is lost if a request fails.
            model: the name of the model.
            options: the options of the loop; see `RunOptions`.

        Raises:
            TurnLimitError: there is no final reply within `max_turns`.
            ReplyError: a reply cannot be used. The errors of the client are raised, too.
            ConfigError: this is no known client, or an option is invalid.
        """
        check_options(options)
        provider = options.get("provider") or provider_of(client)
        surface, native_search = options.get("surface"), options.get("native_search", False)
        tools = await self.tools_for(provider, surface=surface, native_search=native_search)
        return await run_model(client, tools, messages, model, options)

    async def batch(
        self,
        calls: Sequence[ToolCall],
        *,
        surface: ToolSurface | None = None,
        policy: SchedulerPolicy | None = None,
        actor_ref: str | Principal | None = None,
        on_idle: Callable[[], object] | None = None,
    ) -> list[ToolResult]:
        """Call several tools, as `stream_batch` does; return their results in the order of the calls."""
        results: list[ToolResult | None] = [None] * len(all_are(ToolCall, calls))
        items = self.stream_batch(calls, surface=surface, policy=policy, actor_ref=actor_ref, on_idle=on_idle)
        async for item in items:
            results[item.index] = item.result or results[item.index]
        return [result for result in results if result is not None]

    async def stream_batch(
        self,
        calls: Sequence[ToolCall],
        *,
        surface: ToolSurface | None = None,
        policy: SchedulerPolicy | None = None,
        actor_ref: str | Principal | None = None,
        on_idle: Callable[[], object] | None = None,
    ) -> AsyncIterator[BatchItem]:
        """Call several tools under one scheduler policy; yield progress and results in the order of the policy.

        `on_idle` is called when calls wait for an answer, and all others have ended or depend on one that waits.
        """
        all_are(ToolCall, calls)
        policy = _DEFAULT_POLICY if policy is None else read(write(policy), SchedulerPolicy)
        surface = self._agent.surfacing.default() if surface is None else surface
        planned = [
            plan(self._core, self._surfaces, each.name, each.arguments, surface, each.native_call_id, actor_ref, unique)
            for each in calls
            for unique in (unique_part(each.invocation_id),)
        ]
        async with aclosing(make_batch(planned, calls, policy, on_idle).stream()) as items:
            async for item in items:
                yield item

    async def cancel(
        self,
        invocation_id: str,
        *,
        reason: AbortReason = AbortReason.USER_INTERRUPTION,
        by: str | Approver | None = None,
    ) -> bool:
        """Request the cancellation of a call; return whether it is possible.

        With the reason `fallback` its result is discarded. `by` is recorded as in `approvals.decide`.
        """
        return await self._agent.cancel(InvocationId(invocation_id), AbortReason(reason), by)

    async def start(
        self,
        name: str,
        arguments: JsonObject | str | bytes,
        *,
        surface: ToolSurface | None = None,
        native_call_id: str | None = None,
        actor_ref: str | Principal | None = None,
        idempotency_key: str | None = None,
    ) -> CallHandle:
        """Start a call that may outlive its caller; return a handle to follow, await or cancel it.

        It returns at once. When the runtime is closed, a call that runs is canceled; one that waits continues in the
        next process, if the store is durable. A second start with the same idempotency key returns the first call.

        Raises:
            ConfigError: the key was used for another tool or other arguments.
            StoreError: the key cannot be reserved.
        """
        call = ToolCall(name, arguments, native_call_id=native_call_id)
        return await self.calls.start(call, surface=surface, actor_ref=actor_ref, idempotency_key=idempotency_key)
