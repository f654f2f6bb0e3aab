"""The resources and prompts of the sources for MCP clients."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.adapters.function_calling.function_names import qualified_name
from agenttool.adapters.mcp.content import reply_in
from agenttool.adapters.mcp.source import McpSource
from agenttool.adapters.mcp.subscriptions import retry_delay
from agenttool.errors import CallerError
from agenttool.mcp.offer_lists import (
    LISTS,
    OLD_NOT_FOUND,
    KnownLists,
    OfferProvider,
    ServerError,
    ServerOffers,
    StartTask,
)
from agenttool.mcp.profiles import has_tool
from agenttool.policy.verdict import Verdict
from agenttool.ports.identity import Principal, name_of_actor
from agenttool.ports.resources import OfferChanged, OfferKind, ResourceProvider, Unsubscribe
from agenttool.ports.surfacing import Role
from agenttool.records import Behavior, ErrorClass, JsonObject, ToolError, ToolResult
from agenttool.runtime import Runtime

log = logging.getLogger("agenttool.mcp")

RELIST_S = 10.0
"""The shortest time between two reads of the lists for entries that they do not have."""

GUESS_S = 3.0
"""How long sources may take to answer whether they have a URI that they do not list; all are asked at the same time."""

MAX_SUBSCRIPTIONS = 1_000
"""To how many resources one caller can subscribe."""

_REFUSALS = (ErrorClass.APPROVAL_REJECTED, ErrorClass.PERMISSION_DENIED, ErrorClass.POLICY_BLOCKED)

Reply = TypeVar("Reply")

Caller = str | Principal | None
"""The caller of a request: a name, or an identity with roles."""

StillAllowed = Callable[[], Awaitable[bool]]
"""Returns whether a caller may still read the resource that it subscribed to."""

GovernedCall = Callable[[str, JsonObject], Awaitable[ToolResult]]
"""Calls a tool by its qualified name with arguments, for the client of a request."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A provider of an entry.

    Attributes:
        key: the name or URI that the provider knows the entry by.
        is_listed: it lists the entry.
        is_guess: neither an entry nor a template that it lists fits.
        within_s: how long its answer is waited for; None for as long as the call takes.
    """

    provider: OfferProvider
    key: str
    is_listed: bool = False
    is_guess: bool = False
    within_s: float | None = None


@dataclass(slots=True, eq=False)
class OfferSubscription:
    """The subscription of a caller to a resource.

    Attributes:
        changed: is called after each change.
        provider: the source that reports changes.
        notify: reports a change.
        renewing: subscribes at the source that replaced the one before.
    """

    uri: str
    caller: Caller
    changed: Callable[[StillAllowed], None]
    provider: OfferProvider | None = None
    notify: Callable[[], None] = lambda: None
    unsubscribe: Unsubscribe = lambda: None
    renewing: asyncio.Task[None] | None = None

    @property
    def is_renewing(self) -> bool:
        """Whether a source is asked to take it over."""
        return self.renewing is not None and not self.renewing.done()


class OfferPage(NamedTuple):
    """One list of all sources.

    Attributes:
        faults: why the entries of some sources may be missing or old, by the names of the sources.
    """

    entries: list[JsonObject]
    faults: dict[str, str]


class Offers:
    """The resources and prompts of one profile.

    A prompt has its source as a prefix if several sources may have prompts. Of two resources with one URI, the first is
    read.
    """

    def __init__(self, runtime: Runtime, role: Role | None, start: StartTask, changed: OfferChanged) -> None:
        """Take the runtime, the role, what starts the tasks that `close` ends, and what reports changes of lists.

        A role has the resources of a source if it may use the tool `read_resource` there, and the prompts if it may
        use `get_prompt`.
        """
        self._runtime = runtime
        self._role = role
        self._start = start
        self._changed = changed
        self._lists = KnownLists(start, self._note_change)
        self._owners: dict[OfferKind, dict[str, Owner]] = {}
        self._listed_at: dict[OfferKind, float] = {}
        self._watched: dict[str, OfferProvider] | None = None
        self._subscriptions: set[OfferSubscription] = set()
        self._counts: Counter[str | None] = Counter()

    def _providers(self, *kinds: OfferKind) -> Iterator[OfferProvider]:
        """Yield the sources of which the role has one of these lists."""
        sources = self._runtime.sources
        servers = (ServerOffers(each) for each in sources.all_of(McpSource) if each.server.resources)
        for each in (*sources.all_of(ResourceProvider), *servers):
            if any(has_tool(self._role, f"{each.name}.{LISTS[kind].reader}") for kind in kinds):
                yield each

    def _prompt_sources(self) -> frozenset[str]:
        """Return the sources that may have prompts, connected or not, so that names depend on the settings alone."""
        attached = self._runtime.sources
        sources = (each for each in map(attached.get, attached.names) if isinstance(each, McpSource | ResourceProvider))
        reader = LISTS[OfferKind.PROMPTS].reader
        return frozenset(each.name for each in sources if has_tool(self._role, f"{each.name}.{reader}"))

    def close(self) -> None:
        """Stop reading lists, and end all subscriptions."""
        self._lists.close()
        for each in tuple(self._subscriptions):
            self._end(each)

    def watch(self) -> None:
        """Report changes of the lists of all sources from now on; call it again to watch sources that were added."""
        before = self._watched
        self._watched = {each.name: each for each in self._providers(*OfferKind)}
        for name, each in self._watched.items():
            if before is None or before.get(name) != each:
                each.watch(partial(self._note_change, name))
        if before is not None and before != self._watched:
            for name in before.keys() | self._watched.keys():
                if before.get(name) != self._watched.get(name):
                    self._lists.forget(name)
                    self._forget(name)
            for each in self._subscriptions:
                is_served = each.provider is not None and self._watched.get(each.provider.name) == each.provider
                if not is_served and not each.is_renewing:
                    each.renewing = self._start(self._renew(each))
            for kind in (OfferKind.RESOURCES, OfferKind.PROMPTS):
                self._changed(kind)

    def _note_change(self, source: str, kind: OfferKind) -> None:
        self._forget(source)
        if has_tool(self._role, f"{source}.{LISTS[kind].reader}"):
            self._changed(kind)

    def _forget(self, source: str) -> None:
        """Forget the entries of one source, because its lists changed; those of the others stay known."""
        self._lists.outdate(source)
        self._listed_at.clear()
        for kind, owners in self._owners.items():
            self._owners[kind] = {key: each for key, each in owners.items() if each.provider.name != source}

    async def entries(self, kind: OfferKind) -> OfferPage:
        """Return all entries of a list, sorted by name or URI; those of a source that is late are as last known."""
        providers = tuple(self._providers(kind))
        lists = await asyncio.gather(*(self._lists.read(each, kind) for each in providers))
        found: dict[str, JsonObject] = {}
        owners: dict[str, Owner] = {}
        sources = self._prompt_sources() if kind is OfferKind.PROMPTS else ()
        for provider, known in zip(providers, lists, strict=True):
            for each in known.entries:
                key = shown = str(each[LISTS[kind].key])
                if len(sources) > 1:
                    shown = qualified_name(provider.name, key, sources)
                if shown not in found:
                    found[shown] = {**each, LISTS[kind].key: shown}
                    owners[shown] = Owner(provider, key, is_listed=True)
        self._owners[kind] = owners
        self._listed_at[kind] = time.monotonic()
        faults = {each.name: known.fault for each, known in zip(providers, lists, strict=True) if known.fault}
        return OfferPage([found[key] for key in sorted(found)], faults)

    async def entries_for(self, kind: OfferKind, caller: Caller) -> OfferPage:
        """Return the entries of a list without those of servers where the rules deny that the caller lists or reads."""
        page, owners = await self.entries(kind), self._owners.get(kind, {})
        denied: set[str] = set()
        for each in self._providers(kind):
            for operation in (LISTS[kind].operation, LISTS[kind].reader) if isinstance(each, ServerOffers) else ():
                verdict = await self._verdict(f"{each.name}.{operation}", {}, caller)
                if verdict is not None and verdict.behavior is Behavior.DENY:
                    denied.add(each.name)
        hidden = {key for key, owner in owners.items() if owner.provider.name in denied}
        return OfferPage(
            [each for each in page.entries if each[LISTS[kind].key] not in hidden],
            {name: fault for name, fault in page.faults.items() if name not in denied},
        )

    async def _owners_of(self, kind: OfferKind, key: str) -> list[Owner]:
        """Return the owner of an entry.

        A URI that no source lists may name its user or a secret, so it is sent only to the sources whose templates fit
        it; if there is none, to those that list no templates.
        """
        kinds = (kind, OfferKind.TEMPLATES) if kind is OfferKind.RESOURCES else (kind,)
        found = self._known_owners(kind, key)
        if not found and time.monotonic() - self._listed_at.get(kind, -RELIST_S) >= RELIST_S:
            await asyncio.gather(*map(self.entries, kinds))
            found = self._known_owners(kind, key)
        if found or kind is not OfferKind.RESOURCES:
            return found
        with_templates = {each.provider.name for each in self._owners.get(OfferKind.TEMPLATES, {}).values()}
        return [Owner(each, key, is_guess=True) for each in self._providers(kind) if each.name not in with_templates]

    def _known_owners(self, kind: OfferKind, key: str) -> list[Owner]:
        """Return the owner of a listed entry, or those whose templates fit a URI."""
        owner = self._owners.get(kind, {}).get(key)
        if owner is not None or kind is not OfferKind.RESOURCES:
            return [] if owner is None else [owner]
        templates = self._owners.get(OfferKind.TEMPLATES, {}).items()
        fitting = (each.provider for template, each in templates if key.startswith(template.partition("{")[0]))
        return [Owner(each, key) for each in {each.name: each for each in fitting}.values()]

    async def read(self, uri: str, caller: Caller, call: GovernedCall) -> JsonObject | None:
        """Return the contents of a resource; None if there is no such resource.

        The read of a server's resource is a governed call of the server's tool `read_resource`.

        Raises:
            MCPError: it cannot be read now, or the call is denied or waits for an approval.
        """

        async def ask(provider: OfferProvider, key: str) -> JsonObject | None:
            if not isinstance(provider, ServerOffers):
                return await provider.read_resource(key, name_of_actor(caller))
            tool = provider.reading_tool(OfferKind.RESOURCES)
            return None if tool is None else await self._reply_in(await call(tool, {"uri": key}))

        owners = await self._owners_of(OfferKind.RESOURCES, uri)
        return await _first([await self._limited(each, caller) for each in owners], ask)

    async def _limited(self, owner: Owner, caller: Caller) -> Owner:
        """Return an owner with a time limit if it is a guess and no approver is asked, so that it delays no other."""
        tool = f"{owner.provider.name}.{LISTS[OfferKind.RESOURCES].reader}"
        verdict = await self._verdict(tool, {"uri": owner.key}, caller) if owner.is_guess else None
        is_unasked = verdict is not None and verdict.behavior is Behavior.ALLOW
        return replace(owner, within_s=GUESS_S) if is_unasked else owner

    async def _unasked(
        self, owners: list[Owner], kind: OfferKind, arguments: Callable[[str], JsonObject], caller: Caller
    ) -> list[Owner]:
        """Return the owners that may get arguments without a question: those whose tool that reads would run at once.

        Completion and subscriptions cannot wait for an approval. As with a read, an owner that may not get them ends
        the search. Hooks and classifiers have no part in this: they decide about calls alone.

        Raises:
            MCPError: the first owner may not.
        """
        found: list[Owner] = []
        for each in owners:
            tool = each.provider.reading_tool(kind) if isinstance(each.provider, ServerOffers) else None
            verdict = None if tool is None else await self._verdict(tool, arguments(each.key), caller)
            if verdict is not None and verdict.behavior is not Behavior.ALLOW:
                if found:
                    break
                if verdict.behavior is Behavior.DENY:
                    reason = verdict.reason.message or "a rule denies it"
                    raise MCPError(types.INVALID_PARAMS, f"permission_denied: {reason}")
                advice = f"only calls can wait for an approval; allow {tool} by a rule"
                raise MCPError(types.INVALID_PARAMS, f"approval_required: {advice}")
            if verdict is not None or not isinstance(each.provider, ServerOffers):
                found.append(each)
        return found

    async def _verdict(self, tool: str, arguments: JsonObject, caller: Caller) -> Verdict | None:
        """Return what the rules decide about a call; None if there is no such tool."""
        inspection = self._runtime.inspection
        entry = inspection.tool(tool)
        if entry is None:
            return None
        roles = caller.role_names if isinstance(caller, Principal) else None
        return (await inspection.decide(entry, arguments, name_of_actor(caller), roles)).verdict

    async def subscribe(self, uri: str, caller: Caller, changed: Callable[[StillAllowed], None]) -> Unsubscribe | None:
        """Call a function after each change of a resource, until the returned function is called.

        Returns None if its source does not notice changes. If the source is replaced, the new one is subscribed to.

        Raises:
            MCPError: its source cannot answer now, the actor may not read it without an approval, or has too many
                subscriptions.
        """
        actor = name_of_actor(caller)
        if self._counts[actor] >= MAX_SUBSCRIPTIONS:
            message = f"this caller has {MAX_SUBSCRIPTIONS} subscriptions, which is the limit; end some of them"
            raise MCPError(types.INVALID_REQUEST, message, {"uri": uri})
        with ExitStack() as ending:
            self._counts[actor] += 1
            ending.callback(self._counts.subtract, (actor,))
            found = OfferSubscription(uri, caller, changed)
            if not await self._begin(found):
                return None
            self._subscriptions.add(found)
            ending.callback(self._end, found)
            return ending.pop_all().close

    async def _begin(self, found: OfferSubscription) -> bool:
        """Subscribe to a resource at its source; return whether the source notices changes.

        Raises:
            MCPError: its source cannot answer now, or the actor may not read it without an approval.
        """
        caller, actor = found.caller, name_of_actor(found.caller)

        async def allowed(owners: list[Owner]) -> list[Owner]:
            return await self._unasked(owners, OfferKind.RESOURCES, lambda key: {"uri": key}, caller)

        async def is_allowed(owner: Owner) -> bool:
            try:
                return bool(await allowed([owner]))
            except MCPError:
                return False

        async def subscribe(provider: OfferProvider, key: str) -> bool | None:
            changed = partial(found.changed, partial(is_allowed, Owner(provider, key)))
            unsubscribe = await provider.subscribe(key, changed, actor)
            if unsubscribe is None:
                return None
            found.provider, found.notify, found.unsubscribe = provider, changed, unsubscribe
            return True

        owners = await allowed(await self._owners_of(OfferKind.RESOURCES, found.uri))
        return await _first(owners, subscribe) is not None

    def _end(self, found: OfferSubscription) -> None:
        if found in self._subscriptions:
            self._subscriptions.remove(found)
            found.unsubscribe()
            if found.renewing is not None:
                found.renewing.cancel()

    async def _renew(self, found: OfferSubscription) -> None:
        """Subscribe at the source that replaced another, and report a change: there may have been one meanwhile."""
        for failures in count(1):
            try:
                if await self._begin(found):
                    found.notify()
                    return
            except MCPError as error:
                log.info("the subscription to %r is not renewed yet: %s", found.uri, error)
            except Exception:
                log.exception("the subscription to %r cannot be renewed", found.uri)
            await asyncio.sleep(retry_delay(failures))

    async def _reply_in(self, result: ToolResult) -> JsonObject | None:
        """Return the reply of a server in the result of a governed call; None if the server does not have the entry.

        Raises:
            ConnectionError: the server cannot be used now.
            MCPError: the server answered with an error, or the call was denied.
        """
        if result.error is not None:
            _raise_failure(result.error)
            return None
        return await reply_in(result, self._runtime.journal.payload)

    async def prompt(
        self, name: str, arguments: Mapping[str, str], actor: str | None, call: GovernedCall
    ) -> JsonObject:
        """Return the messages of a prompt; that of a server is a governed call of the server's tool `get_prompt`.

        Raises:
            MCPError: there is no such prompt, its source cannot answer now, or the call is denied or waits.
        """

        async def ask(provider: OfferProvider, key: str) -> JsonObject | None:
            if not isinstance(provider, ServerOffers):
                return await provider.get_prompt(key, arguments, actor)
            members: JsonObject = {"name": key, "arguments": {**arguments}}
            tool = provider.reading_tool(OfferKind.PROMPTS)
            return None if tool is None else await self._reply_in(await call(tool, members))

        found = await _first(await self._owners_of(OfferKind.PROMPTS, name), ask)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"no prompt is named {name!r}; list the prompts")
        return found

    async def completion(self, params: JsonObject, caller: Caller, call: GovernedCall) -> JsonObject:
        """Return completions of an argument of a prompt or of a resource template.

        Those of a server are a governed call of the server's tool `complete`. There are none if no source has some, or
        if the actor may not read the entry, or complete it, without an approval.
        """
        ref = cast("JsonObject", params["ref"])
        member, kind = ("name", OfferKind.PROMPTS) if ref["type"] == "ref/prompt" else ("uri", OfferKind.TEMPLATES)
        given = _completed_arguments(params)

        def arguments(key: str) -> JsonObject:
            return {"name": key, "arguments": given} if kind is OfferKind.PROMPTS else {"uri": _filled(key, given)}

        owners = await self._owners_of(kind, str(ref.get(member)))
        try:
            owners = await self._unasked(owners, kind, arguments, caller)
        except MCPError:
            owners = []

        async def ask(provider: OfferProvider, key: str) -> JsonObject | None:
            members: JsonObject = {**params, "ref": {**ref, member: key}}
            if not isinstance(provider, ServerOffers):
                return await provider.complete(members, name_of_actor(caller))
            tool = provider.completing_tool
            verdict = None if tool is None else await self._verdict(tool, members, caller)
            if tool is None or verdict is None or verdict.behavior is not Behavior.ALLOW:
                return None
            result = await call(tool, members)
            is_refused = result.error is not None and result.error.error_class in _REFUSALS
            return None if is_refused else await self._reply_in(result)

        found = await _first(owners, ask)
        return found or {"completion": {"values": [], "total": 0, "hasMore": False}}


def _completed_arguments(params: JsonObject) -> JsonObject:
    """Return the arguments that a request for completions has: those given before, and the one to complete."""
    context, argument = params.get("context"), cast("JsonObject", params["argument"])
    before = context.get("arguments") if isinstance(context, dict) else None
    return {**(before if isinstance(before, dict) else {}), str(argument["name"]): argument["value"]}


def _filled(template: str, values: JsonObject) -> str:
    """Return a URI template with the values that are known."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", str(value))
    return template


async def _first(owners: Iterable[Owner], ask: Callable[[OfferProvider, str], Awaitable[Reply | None]]) -> Reply | None:
    """Return the reply of the first owner that has one; those with a time limit are asked at the same time.

    An owner that lacks the entry says so, and then the next one is asked. Any other failure ends the search, such as
    a denial: the entry of another source may have the same URI.

    Raises:
        MCPError: the owner could not answer now, answered with an error, or the rules do not allow the read; or all
            sources that might have the entry failed.
    """
    fault: MCPError | None = None
    async with asyncio.TaskGroup() as group:
        asked = [(each, None if each.within_s is None else group.create_task(_reply_of(each, ask))) for each in owners]
        try:
            for each, reply in asked:
                outcome = await (reply or _reply_of(each, ask))
                if isinstance(outcome, MCPError):
                    # Revision 2026-07-28 has no other code for an unknown resource.
                    is_unknown = outcome.code == types.INVALID_PARAMS and not each.is_listed
                    if not isinstance(outcome, ServerError) or not (each.is_guess or is_unknown):
                        fault = outcome
                        break
                    fault = fault or outcome
                elif outcome is not None:
                    return outcome
        finally:
            for _, reply in asked:
                if reply is not None:
                    reply.cancel()
    if fault is not None:
        raise fault
    return None


async def _reply_of(
    owner: Owner, ask: Callable[[OfferProvider, str], Awaitable[Reply | None]]
) -> Reply | MCPError | None:
    """Return the reply of an owner, or its failure.

    If a guess cannot answer now, that is a `ServerError`, so that the search continues with the next owner.
    """
    try:
        async with asyncio.timeout(owner.within_s):
            return await ask(owner.provider, owner.key)
    except MCPError as error:
        return error
    except (CallerError, ConnectionError, TimeoutError) as error:
        if isinstance(error, TimeoutError):
            log.warning("the source %r did not answer within %g s", owner.provider.name, owner.within_s or 0.0)
        reason = str(error) or f"{owner.provider.name!r} did not answer in time"
        failure = ServerError if owner.is_guess else MCPError
        return failure(types.INTERNAL_ERROR, f"the source cannot answer now: {reason}")


def _raise_failure(error: ToolError) -> None:
    """Raise the failure of a governed read as an MCP error; return if the server does not have the entry.

    Raises:
        ConnectionError: the server cannot be used now.
        MCPError: the server answered with an error, or the call was denied.
    """
    native = error.native_error_ref
    code = native.get("code") if isinstance(native, dict) else None
    if isinstance(native, dict) and isinstance(code, int):
        if code != OLD_NOT_FOUND:
            raise ServerError(code, str(native.get("message")), native.get("data"))
    elif error.error_class is ErrorClass.DEPENDENCY_UNAVAILABLE:
        raise ConnectionError(error.message)
    else:
        raise MCPError(types.INVALID_PARAMS, f"{error.error_class}: {error.message}")
