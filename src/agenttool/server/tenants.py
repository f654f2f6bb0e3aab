"""Tenants: each has its own runtime and store, so no query can read the data of another tenant."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Unpack

from starlette.types import ASGIApp

from agenttool.agent.surface_options import SurfaceContext
from agenttool.errors import StoreError
from agenttool.history.statistics import CallCounter
from agenttool.journal.steps import STEPS
from agenttool.ports.deferred import Thread
from agenttool.ports.identity import DEFAULT_TENANT, AccessRole, Principal
from agenttool.ports.quota import OwnedEntries
from agenttool.ports.stores import DocumentStore
from agenttool.records import ToolResult, ToolSurface
from agenttool.runtime import Runtime
from agenttool.server.event_hub import EventHub
from agenttool.server.lazy_app import LazyContext
from agenttool.server.problem import Problem
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.world import SystemClock

MAX_TENANTS = 100
"""The maximum number of open tenants."""

MAX_SURFACES = 100_000
"""The maximum number of surfaces of all callers; further ones replace old ones of the caller with the most."""

RECOVER_EVERY_S = 10.0
"""How often the stores of tenants that are not open are searched for calls of dead processes."""

_MAX_OPENING = 4
"""How many tenants are opened at the same time to continue their calls."""

_TENANT = "tenant"
"""The kind of the documents of the default tenant that name the tenants of the store; the key is the name.

The names of files do not say so: a copy of a store would be taken for a tenant, and its calls would run twice.
"""

log = logging.getLogger("agenttool.server")

_OWNER = "caller:"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def is_tenant_name(name: str) -> bool:
    """Return whether a text can name a tenant: lower-case letters, digits, `-` and `_`."""
    return _NAME.fullmatch(name) is not None


def tenant_store(place: Path, tenant: str) -> Path:
    """Return the file of a tenant's store, in the folder of the default tenant's store."""
    return place if tenant == DEFAULT_TENANT else place.with_name(f"{place.stem}.{tenant}{place.suffix}")


def other_stores(default: SqliteReader) -> dict[str, Path]:
    """Return the files of the other tenants that the store of the default tenant names, by tenant."""
    files = {name: tenant_store(default.path, name) for name, _ in default.documents(_TENANT)}
    return {name: file for name, file in files.items() if file.is_file()}


class Tenant:
    """One tenant: its runtime, with its event streams, surfaces and batches.

    Attributes:
        mcp: the application of `/mcp`; None if there is none.
        file: the file of its store; None in memory.
        counter: counts its calls for statistics.
    """

    def __init__(self, runtime: Runtime, *, file: Path | None = None, mcp: ASGIApp | None = None) -> None:
        """Take a runtime that is open; `running` starts the event hub."""
        self.runtime = runtime
        self.file = file
        self.mcp = mcp
        self.events = EventHub(runtime)
        self.counter = CallCounter()
        self._surfaces: OwnedEntries[str, ToolSurface] = OwnedEntries(
            "surfaces", MAX_SURFACES, on_drop=runtime.surfaces.forget
        )
        self._session_surfaces: dict[str, ToolSurface] = {}
        self._batches: set[asyncio.Task[list[ToolResult]]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Tenant"]:
        """Follow the journal for event streams within this context."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.events.run())
            try:
                yield self
            finally:
                self.events.close("draining")
                task.cancel()

    def conversation(self, caller: Principal, name: str | None) -> Runtime:
        """Return the runtime for calls in a conversation of a caller; no other caller can name it."""
        return self.runtime.in_thread(Thread.of_caller(caller.subject, name), caller=caller.subject)

    async def session_surface(self, caller: Principal) -> ToolSurface:
        """Return the current surface for requests of a caller that name none."""
        runtime, previous = self.runtime, self._session_surfaces.get(caller.subject)
        known = previous and runtime.surfaces.find(previous.surface_id)
        if previous is None and len(self._session_surfaces) >= MAX_SURFACES:
            del self._session_surfaces[next(iter(self._session_surfaces))]
        found = await self.create_surface(caller, "session") if known is None else runtime.surfaces.current(known)
        self._session_surfaces[caller.subject] = found
        return found

    async def create_surface(
        self, caller: Principal, scope: str, only: Iterable[str] | None = None, **context: Unpack[SurfaceContext]
    ) -> ToolSurface:
        """Create a surface of a caller. Its first ref names the caller, also in the surfaces that replace it."""
        context["refs"] = (_OWNER + caller.subject, *context.get("refs", ()))
        found = await self.runtime.surface(scope, only=only, **context)
        self._surfaces.add(caller.subject, found.surface_id, found)
        return found

    def surface(
        self, caller: Principal, surface_id: str, pointer: str | None = None, *, reads_only: bool = False
    ) -> ToolSurface:
        """Return a surface that a caller may use: its own, or one of the server.

        Operators and auditors may read those of others, too.

        Raises:
            Problem: there is none.
        """
        found = self.runtime.surfaces.find(surface_id)
        owner = next(iter((found and found.runtime_refs) or ()), "")
        is_foreign = owner.startswith(_OWNER) and owner != _OWNER + caller.subject
        if found is None or (is_foreign and not (reads_only and caller.has(AccessRole.OPERATOR, AccessRole.AUDITOR))):
            detail = f"unknown surface {surface_id!r}; create one with POST /v1/surfaces"
            raise Problem(HTTPStatus.NOT_FOUND, detail, pointer=pointer)
        return found

    def start_batch(self, results: Coroutine[object, object, list[ToolResult]]) -> "asyncio.Task[list[ToolResult]]":
        """Run a batch in a task that outlives its request."""
        task = asyncio.create_task(results)  # noqa: TID251 -- it ends with its calls, which the runtime ends
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)
        return task


class Tenants:
    """The tenants of a server. The default one is open; others open with their first request, or to continue calls."""

    def __init__(
        self,
        default: Tenant,
        open_tenant: Callable[[str], AbstractAsyncContextManager[Tenant]],
        documents: DocumentStore,
        group: asyncio.TaskGroup,
    ) -> None:
        """Take the default tenant, what opens another, where to name it, and the group for the tasks of the others."""
        self.default = default
        self._open_tenant = open_tenant
        self._documents = documents
        self._group = group
        self._others: dict[str, LazyContext[Tenant]] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        default: Tenant,
        open_tenant: Callable[[str], AbstractAsyncContextManager[Tenant]],
        documents: DocumentStore,
    ) -> AsyncGenerator["Tenants"]:
        """Yield the tenants; leaving this closes those that were opened."""
        async with asyncio.TaskGroup() as group, default.running():
            tenants = cls(default, open_tenant, documents, group)
            recovering = group.create_task(tenants._recover())
            try:
                yield tenants
            finally:
                recovering.cancel()
                for each in tenants._others.values():
                    each.close()

    async def _recover(self) -> None:
        """Open the tenants whose stores have calls of dead processes, so that they continue; runs until canceled."""
        file, faults = self.default.file, dict[str, str]()
        if file is None:
            return
        limit = asyncio.Semaphore(_MAX_OPENING)

        async def open_one(tenant: str) -> None:
            async with limit:
                try:
                    if await asyncio.to_thread(_has_calls_to_recover, tenant_store(file, tenant)):
                        await self.get(tenant)
                    faults.pop(tenant, None)
                except Exception as error:  # noqa: BLE001 -- it must not stop the server, which serves other tenants
                    if faults.get(tenant) != str(error):
                        log.warning("the calls of the tenant %r wait until its store can be used: %s", tenant, error)
                    faults[tenant] = str(error)

        while True:
            with suppress(StoreError):  # the disk may work again the next time
                names = await self._documents.keys(_TENANT, limit=10_000)
                opened = {name for name, each in self._others.items() if each.entered is not None}
                await asyncio.gather(*(open_one(each) for each in names if each not in opened))
            await asyncio.sleep(RECOVER_EVERY_S)

    @asynccontextmanager
    async def _opened(self, name: str) -> AsyncGenerator[Tenant]:
        """Open a tenant; its name is stored before it has any call."""
        if await self._documents.get(_TENANT, name) is None:
            await self._documents.put(_TENANT, name, b"{}")
        async with self._open_tenant(name) as tenant:
            yield tenant

    async def find(self, name: str) -> Tenant | None:
        """Return a tenant that the store has; None if there is no such tenant.

        Raises:
            Problem: too many tenants are open.
        """
        is_known = name == DEFAULT_TENANT or await self._documents.get(_TENANT, name) is not None
        return await self.get(name) if is_known else None

    async def get(self, name: str) -> Tenant:
        """Return a tenant.

        Raises:
            Problem: too many tenants are open.
        """
        if name == DEFAULT_TENANT:
            return self.default
        tenant = self._others.get(name)
        if tenant is None:
            if len(self._others) >= MAX_TENANTS:
                detail = f"{MAX_TENANTS} tenants are open; use another server for more"
                raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"retry-after": "60"})
            tenant = self._others[name] = LazyContext(lambda: self._opened(name), self._group)
        return await tenant.get()

    def opened(self) -> list[Tenant]:
        """Return the tenants that are open."""
        others = (each.entered for each in self._others.values())
        return [self.default, *(each for each in others if each is not None)]


def _has_calls_to_recover(file: Path) -> bool:
    """Return whether a store has open calls that no living process owns."""
    if not file.is_file():
        return False
    with SqliteReader.open(file, steps=STEPS) as reader:
        return any(not owned.is_alive for _, owned in reader.open_owners(SystemClock().moment()))
