"""The resources and prompts of MCP servers for MCP clients."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.adapters.function_calling.function_names import qualified_name
from agenttool.adapters.mcp.content import reply_in
from agenttool.adapters.mcp.elicitation import REFUSALS
from agenttool.adapters.mcp.source import McpSource
from agenttool.adapters.mcp.subscriptions import retry_delay
from agenttool.codec import object_of
from agenttool.mcp.offer_lists import LISTS, OLD_NOT_FOUND, KnownLists, ServerError, StartTask, answered
from agenttool.mcp.profiles import has_tool
from agenttool.mcp.results import server_error
from agenttool.policy.verdict import Verdict
from agenttool.ports.identity import Principal, name_of_actor
from agenttool.ports.quota import CallerQuota
from agenttool.ports.resources import OfferChanged, OfferKind, Unsubscribe
from agenttool.ports.surfacing import Role
from agenttool.records import Behavior, ErrorClass, JsonObject, ToolResult
from agenttool.runtime import Runtime

log = logging.getLogger("agenttool.mcp")

RELIST_S = 10.0
"""The shortest time between two reads of the lists for entries that they do not have."""

GUESS_S = 3.0
"""How long sources may take to answer whether they have a URI that they do not list; all are asked at the same time."""

Reply = TypeVar("Reply")

Caller = str | Principal | None
"""The caller of a request: a name, or an identity with roles."""

StillAllowed = Callable[[], Awaitable[bool]]
"""Returns whether a caller may still read the resource that it subscribed to."""

GovernedCall = Callable[[str, JsonObject], Awaitable[ToolResult]]
"""Calls a tool by its qualified name with arguments, for the client of a request."""


class Owner(NamedTuple):
    """A server that has an entry, or may have it.

    Attributes:
        key: the name or URI that the server knows the entry by.
        is_listed: it lists the entry.
        is_guess: neither an entry nor a template that it lists fits.
        within_s: how long its answer is waited for; None for as long as the call takes.
    """

    source: McpSource
    key: str
    is_listed: bool = False
    is_guess: bool = False
    within_s: float | None = None


@dataclass(slots=True, eq=False)
class OfferSubscription:
    """The subscription of a caller to a resource.

    Attributes:
        changed: is called after each change.
        source: the server that reports changes.
        notify: reports a change.
        renewing: subscribes at the source that replaced the one before.
    """

    uri: str
    caller: Caller
    changed: Callable[[StillAllowed], None]
    source: McpSource | None = None
    notify: Callable[[], None] = lambda: None
    unsubscribe: Unsubscribe = lambda: None
    renewing: asyncio.Task[None] | None = None


class OfferPage(NamedTuple):
    """One list of all sources.

    Attributes:
        faults: why the entries of some sources may be missing or old, by the names of the sources.
    """

    entries: list[JsonObject]
    faults: dict[str, str]


@dataclass(slots=True, eq=False)
class Offers:
    """The resources and prompts of one profile.

    A prompt has its source as a prefix if several sources may have prompts. Of two resources with one URI, the first is
    read. A role has the resources of a source if it may use the tool `read_resource` there, and the prompts if it may
    use `get_prompt`.

    Attributes:
        start: starts the tasks, which `close` ends.
        changed: reports a changed list.
    """

    runtime: Runtime
    role: Role | None
    start: StartTask
    changed: OfferChanged
    _lists: KnownLists = field(init=False)
    _owners: dict[OfferKind, dict[str, Owner]] = field(default_factory=dict)
    _listed_at: dict[OfferKind, float] = field(default_factory=dict)
    _watched: dict[str, McpSource] | None = None
    _subscriptions: set[OfferSubscription] = field(default_factory=set)
    _quota: CallerQuota = field(default_factory=lambda: CallerQuota("resource subscriptions"))
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        """Start without lists."""
        self._lists = KnownLists(self.start, self._note_change)

    def _sources(self, *kinds: OfferKind) -> list[McpSource]:
        """Return the servers of which the role has one of these lists."""
        servers = (each for each in self.runtime.sources.all_of(McpSource) if each.server.resources)
        return [each for each in servers if any(self._has(each.name, kind) for kind in kinds)]

    def _has(self, source: str, kind: OfferKind) -> bool:
        return has_tool(self.role, f"{source}.{LISTS[kind].reader}")

    def _prompt_sources(self) -> frozenset[str]:
        """Return the servers that may have prompts, connected or not, so that names depend on the settings alone."""
        sources = self.runtime.sources
        servers = (name for name in sources.names if isinstance(sources.get(name), McpSource))
        return frozenset(each for each in servers if self._has(each, OfferKind.PROMPTS))

    def close(self) -> None:
        """Stop reading lists, and end all subscriptions."""
        self._lists.close()
        for each in tuple(self._subscriptions):
            self._end(each)

    def watch(self) -> None:
        """Report changes of the lists of all sources from now on; call it again to watch sources that were added."""
        before = self._watched
        self._watched = {each.name: each for each in self._sources(*OfferKind)}
        for name, each in self._watched.items():
            if before is None or before.get(name) is not each:
                each.watch_offers(partial(self._note_change, name))
        if before is not None and before != self._watched:
            for name in before.keys() | self._watched.keys():
                if before.get(name) is not self._watched.get(name):
                    self._lists.forget(name)
                    self._forget(name)
            for each in self._subscriptions:
                is_served = each.source in self._watched.values()
                if not is_served and (each.renewing is None or each.renewing.done()):
                    each.renewing = self.start(self._renew(each))
            for kind in (OfferKind.RESOURCES, OfferKind.PROMPTS):
                self.changed(kind)

    def _note_change(self, source: str, kind: OfferKind) -> None:
        self._forget(source)
        if self._has(source, kind):
            self.changed(kind)

    def _forget(self, source: str) -> None:
        """Forget the entries of one source, because its lists changed; those of the others stay known."""
        self._lists.outdate(source)
        self._listed_at.clear()
        for kind, owners in self._owners.items():
            self._owners[kind] = {key: each for key, each in owners.items() if each.source.name != source}

    async def entries(self, kind: OfferKind) -> OfferPage:
        """Return all entries of a list, sorted by name or URI; those of a source that is late are as last known."""
        servers = self._sources(kind)
        lists = await asyncio.gather(*(self._lists.read(each, kind) for each in servers))
        found: dict[str, JsonObject] = {}
        owners: dict[str, Owner] = {}
        sources = self._prompt_sources() if kind is OfferKind.PROMPTS else ()
        for source, known in zip(servers, lists, strict=True):
            for each in known.entries:
                key = shown = str(each[LISTS[kind].key])
                if len(sources) > 1:
                    shown = qualified_name(source.name, key, sources)
                if shown not in found:
                    found[shown] = {**each, LISTS[kind].key: shown}
                    owners[shown] = Owner(source, key, is_listed=True)
        self._owners[kind] = owners
        self._listed_at[kind] = time.monotonic()
        faults = {each.name: known.fault for each, known in zip(servers, lists, strict=True) if known.fault}
        return OfferPage([found[key] for key in sorted(found)], faults)

    async def entries_for(self, kind: OfferKind, caller: Caller) -> OfferPage:
        """Return the entries of a list without those of servers where the rules deny that the caller lists or reads."""
        page, owners = await self.entries(kind), self._owners.get(kind, {})
        denied: set[str] = set()
        for each in self._sources(kind):
            tools = (f"{each.name}.{LISTS[kind].operation}", f"{each.name}.{LISTS[kind].reader}")
            verdicts = [await self._verdict(tool, {}, caller) for tool in tools]
            if any(verdict is not None and verdict.behavior is Behavior.DENY for verdict in verdicts):
                denied.add(each.name)
        hidden = {key for key, owner in owners.items() if owner.source.name in denied}
        entries = [each for each in page.entries if each[LISTS[kind].key] not in hidden]
        return OfferPage(entries, {name: fault for name, fault in page.faults.items() if name not in denied})

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
        with_templates = {each.source.name for each in self._owners.get(OfferKind.TEMPLATES, {}).values()}
        return [Owner(each, key, is_guess=True) for each in self._sources(kind) if each.name not in with_templates]

    def _known_owners(self, kind: OfferKind, key: str) -> list[Owner]:
        """Return the owner of a listed entry, or those whose templates fit a URI."""
        owner = self._owners.get(kind, {}).get(key)
        if owner is not None or kind is not OfferKind.RESOURCES:
            return [] if owner is None else [owner]
        templates = self._owners.get(OfferKind.TEMPLATES, {}).items()
        fitting = (each.source for template, each in templates if key.startswith(template.partition("{")[0]))
        return [Owner(each, key) for each in {each.name: each for each in fitting}.values()]

    async def read(
        self, kind: OfferKind, key: str, members: JsonObject, caller: Caller, call: GovernedCall
    ) -> JsonObject | None:
        """Return the contents of a resource or the messages of a prompt; None if there is no such entry.

        This is a governed call of the tool of its server that reads it; `members` are further arguments of it.

        Raises:
            MCPError: it cannot be read now, or the call is denied or waits for an approval.
        """

        async def ask(source: McpSource, key: str) -> JsonObject | None:
            tool = source.reading_tool(LISTS[kind].reader)
            return None if tool is None else await self._reply_in(await call(tool, {LISTS[kind].key: key, **members}))

        owners = await self._owners_of(kind, key)
        return await _first([await self._limited(each, caller) for each in owners], ask)

    async def _limited(self, owner: Owner, caller: Caller) -> Owner:
        """Return an owner with a time limit if it is a guess and no approver is asked, so that it delays no other."""
        tool = f"{owner.source.name}.{LISTS[OfferKind.RESOURCES].reader}"
        verdict = await self._verdict(tool, {"uri": owner.key}, caller) if owner.is_guess else None
        is_unasked = verdict is not None and verdict.behavior is Behavior.ALLOW
        return owner._replace(within_s=GUESS_S) if is_unasked else owner

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
            tool = each.source.reading_tool(LISTS[kind].reader)
            verdict = None if tool is None else await self._verdict(tool, arguments(each.key), caller)
            if verdict is None:
                continue
            if verdict.behavior is Behavior.ALLOW:
                found.append(each)
            elif found:
                break
            elif verdict.behavior is Behavior.DENY:
                reason = verdict.reason.message or "a rule denies it"
                raise MCPError(types.INVALID_PARAMS, f"permission_denied: {reason}")
            else:
                advice = f"only calls can wait for an approval; allow {tool} by a rule"
                raise MCPError(types.INVALID_PARAMS, f"approval_required: {advice}")
        return found

    async def _verdict(self, tool: str, arguments: JsonObject, caller: Caller) -> Verdict | None:
        """Return what the rules decide about a call; None if there is no such tool."""
        inspection = self.runtime.inspection
        entry = inspection.tool(tool)
        if entry is None:
            return None
        roles = caller.role_names if isinstance(caller, Principal) else None
        return (await inspection.decide(entry, arguments, name_of_actor(caller), roles)).verdict

    async def subscribe(self, uri: str, caller: Caller, changed: Callable[[StillAllowed], None]) -> Unsubscribe | None:
        """Call a function after each change of a resource, until the returned function is called.

        Returns None if its source does not notice changes. If the source is replaced, the new one is subscribed to.

        Raises:
            MCPError: its source cannot answer now, or the actor may not read it without an approval.
            QuotaError: the actor has too many subscriptions.
        """
        with ExitStack() as ending:
            ending.enter_context(self._quota.hold(name_of_actor(caller)))
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

        async def subscribe(source: McpSource, key: str) -> bool | None:
            changed = partial(found.changed, partial(is_allowed, Owner(source, key)))
            unsubscribe = await answered(source.subscribe(key, changed, actor))
            if unsubscribe is None:
                return None
            found.source, found.notify, found.unsubscribe = source, changed, unsubscribe
            return True

        owners = await self._owners_of(OfferKind.RESOURCES, found.uri)
        async with self._deciding:  # a client may subscribe to many at once, and other work gets its turn between two
            await asyncio.sleep(0)
            owners = await allowed(owners)
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
        error = result.error
        answered = server_error(error)
        if error is None:
            return await reply_in(result, self.runtime.journal.payload)
        if answered is not None:
            if answered.code == OLD_NOT_FOUND:
                return None
            raise ServerError(answered.code, answered.message, answered.data)
        if error.error_class is ErrorClass.DEPENDENCY_UNAVAILABLE:
            raise ConnectionError(error.message)
        raise MCPError(types.INVALID_PARAMS, f"{error.error_class}: {error.message}")

    async def completion(self, params: JsonObject, caller: Caller, call: GovernedCall) -> JsonObject:
        """Return completions of an argument of a prompt or of a resource template.

        Those of a server are a governed call of the server's tool `complete`. There are none if no source has some, or
        if the actor may not read the entry, or complete it, without an approval.
        """
        ref = object_of(params["ref"])
        member, kind = ("name", OfferKind.PROMPTS) if ref["type"] == "ref/prompt" else ("uri", OfferKind.TEMPLATES)
        before, argument = object_of(params.get("context")).get("arguments"), object_of(params["argument"])
        given = {**object_of(before), str(argument["name"]): argument["value"]}

        def arguments(key: str) -> JsonObject:
            if kind is OfferKind.PROMPTS:
                return {"name": key, "arguments": given}
            for name, value in given.items():
                key = key.replace(f"{{{name}}}", str(value))
            return {"uri": key}

        owners = await self._owners_of(kind, str(ref.get(member)))
        try:
            owners = await self._unasked(owners, kind, arguments, caller)
        except MCPError:
            owners = []

        async def ask(source: McpSource, key: str) -> JsonObject | None:
            tool = source.reading_tool("complete")
            if tool is None:
                return None
            result = await call(tool, {**params, "ref": {**ref, member: key}})
            is_refused = result.error is not None and result.error.error_class in REFUSALS
            return None if is_refused else await self._reply_in(result)

        found = await _first(owners, ask)
        return found or {"completion": {"values": [], "total": 0, "hasMore": False}}


async def _first(owners: Iterable[Owner], ask: Callable[[McpSource, str], Awaitable[Reply | None]]) -> Reply | None:
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


async def _reply_of(owner: Owner, ask: Callable[[McpSource, str], Awaitable[Reply | None]]) -> Reply | MCPError | None:
    """Return the reply of an owner, or its failure.

    If a guess cannot answer now, that is a `ServerError`, so that the search continues with the next owner.
    """
    try:
        async with asyncio.timeout(owner.within_s):
            return await ask(owner.source, owner.key)
    except MCPError as error:
        return error
    except (ConnectionError, TimeoutError) as error:
        if isinstance(error, TimeoutError):
            log.warning("the source %r did not answer within %g s", owner.source.name, owner.within_s or 0.0)
        reason = str(error) or f"{owner.source.name!r} did not answer in time"
        failure = ServerError if owner.is_guess else MCPError
        return failure(types.INTERNAL_ERROR, f"the source cannot answer now: {reason}")
