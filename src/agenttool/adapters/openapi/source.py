"""An OpenAPI service as a source: reads its document, and declares its operations as tools."""

import asyncio
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from agenttool.adapters.openapi.declare import OperationTool, base_url, declare
from agenttool.adapters.openapi.document import (
    DocumentError,
    UnreadableDocument,
    error_reason,
    external_references,
    load_external,
    origin_of,
)
from agenttool.adapters.openapi.execute import OperationExecutor, ServiceState
from agenttool.adapters.openapi.http import HttpRequest, HttpResponse, RequestFailed, ServiceClient
from agenttool.adapters.openapi.importer import (
    DECISIVE,
    SHOWN,
    ImportedDocument,
    describe_changes,
    import_document,
)
from agenttool.adapters.openapi.requests import ArgumentError, arguments_of, build_request
from agenttool.adapters.openapi.schemas import pruned
from agenttool.adapters.openapi.security import MASK, RequestCredentials, TokenCache
from agenttool.adapters.openapi.settings import OpenApiService, read_service
from agenttool.adapters.openapi.shapes import SkippedPart, grouped
from agenttool.adapters.polled_work import PolledWork
from agenttool.adapters.source_settings import credentials_in, fill_credentials, folder_of, read_all
from agenttool.adapters.tool_review import SourceWithReview, ToolReview
from agenttool.codec import read_stored, write_own
from agenttool.config.table import key, suggestion
from agenttool.errors import ConfigError, CredentialMissing, RecordError, StoreError
from agenttool.http.ssrf import SsrfPolicy, check_url, policy_for
from agenttool.ports.source import SourceHost, SourceSettings, SourceStatus
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool
from agenttool.records import InputContract, JsonObject, Lifecycle, Part, ToolId
from agenttool.records import replace as replace_record
from agenttool.schema.compile import Checker

log = logging.getLogger("agenttool.openapi")

FIRST_DELAY_S, MAX_DELAY_S = 5.0, 300.0
"""The delays between attempts to read a document that cannot be read."""

FIRST_READ_S = 20.0
"""How long the start waits for the first document; a longer one is read while the runtime already runs."""

MAX_CACHED_BYTES = 8 * 2**20
_KIND, _WORK = "openapi_document", "openapi_work"
_ACCEPTED = "202"
_DECLARED_AT_A_TIME = 50
_SHOWN = 3
_NOT_MODIFIED = 304
_LIMITS = {"too_large": "max_document_bytes", "timeout": "timeout_s"}
"""The setting to raise for each failure that a limit on reading a document causes."""


class CachedDocument(Part, frozen=True, kw_only=True):
    """The last document of a service, as it is stored.

    Attributes:
        body: compressed; empty for a file, or if it is too long.
        digests: of its operations.
        origins: the servers and token endpoints that the document had at first; others need the settings.
    """

    place: str
    etag: str | None = None
    body: bytes = b""
    digests: dict[str, str] = key(default_factory=dict[str, str])
    origins: tuple[str, ...] = ()


def make_sources(settings: Sequence[SourceSettings]) -> tuple["OpenApiSource", ...]:
    """Return one source for each service.

    Raises:
        ConfigError: a settings table is invalid.
    """
    services = read_all(settings, OpenApiService, lambda each: read_service(each.name, each.members, folder_of(each)))
    return tuple(map(OpenApiSource, services))


class OpenApiSource(SourceWithReview):
    """One OpenAPI service and its tools.

    Attributes:
        service: its settings.
        imported: its document as it was read last; None before.
    """

    _state: ServiceState

    def __init__(self, service: OpenApiService) -> None:
        """Take the settings; `connect` reads the document."""
        self.service = service
        self.name = service.name
        self.imported: ImportedDocument | None = None
        self._status = SourceStatus(source=self.name, state=ProviderState.CONNECTING)
        self._declared: dict[ToolId, DeclaredTool] = {}
        self._cached = CachedDocument(place=service.document)
        self._body = b""
        self._fault: str | None = None
        self._unreadable: str | None = None
        self._watch: asyncio.Task[None] | None = None
        self._review = ToolReview(service.name, "openapi_tools", DECISIVE, SHOWN)
        self._reading, self._declaring = asyncio.Lock(), asyncio.Lock()

    async def connect(self, host: SourceHost) -> None:
        """Read the document, and declare its operations; if it cannot be read, the last one is used.

        Raises:
            ConfigError: an address or a file of the settings is invalid.
        """
        self._host = host
        service = self.service
        urls = [each for each in (service.document, service.server) if each is not None and "://" in each]
        self._policy = policy_for(urls, service.allow)
        self._client = ServiceClient(self._policy, service.timeout_s)
        self._tokens = TokenCache(self._post_form)
        with suppress(StoreError):
            cached = read_stored(await host.documents.get(_KIND, self.name), CachedDocument)
            if cached is not None and cached.place == service.document:
                self._cached = cached
        first = asyncio.create_task(self.refresh())  # noqa: TID251 -- `_watch` is its parent
        self._watch = asyncio.create_task(self._keep_current(first))  # noqa: TID251 -- `close` is its parent
        await asyncio.wait([first], timeout=FIRST_READ_S)
        if first.done():
            first.result()
        else:
            late = f"the document of {self.name!r} is still being read after {FIRST_READ_S:g} s"
            self._fault = f"{late}; its tools follow, and include in the settings chooses fewer"
            await host.set_states({self.name: ProviderState.CONNECTING})

    def health(self) -> tuple[SourceStatus, ...]:
        """Return whether the document was read, and which operations were skipped or wait for a review."""
        advice = () if self.imported is None else self.imported.advice
        faults = [self._fault, self._review.fault]
        if self.imported is not None and self.imported.skipped:
            count, lines = len(self.imported.skipped), grouped(self.imported.skipped)
            named = "; ".join(lines[:_SHOWN]) + ("; …" if len(lines) > _SHOWN else "")
            faults.append(f"{count:,} part{'s' * (count > 1)} of its document cannot be used: {named}")
        return (replace(self._status, fault="; ".join(filter(None, (*faults, *advice[:_SHOWN]))) or None),)

    async def close(self) -> None:
        """Stop to refresh, and close the connections."""
        tasks = [each for each in (self._watch, self._review_watch) if each is not None]
        for each in tasks:
            each.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if hasattr(self, "_client"):
            await self._client.close()

    async def check(self) -> None:
        """Wait until the document is read; read it again now if it could not be read."""
        async with self._reading:
            pass
        if self._fault is not None:
            await self.refresh()

    async def _use_reviewed(self) -> None:
        await self._declare()

    async def refresh(self) -> bool:
        """Read the document again, and declare what changed; return whether it could be read."""
        async with self._reading:
            try:
                data, etag = await self._read_document()
                if self.imported is None or data != self._body or self._unreadable is not None:
                    await self._use(data, etag)
                self._fault = self._unreadable
            except (DocumentError, RequestFailed, OSError, CredentialMissing, StoreError) as error:
                reason = error_reason(error)
                self._fault = f"the document of {self.name!r} cannot be read: {reason}"
                log.warning("%s", self._fault)
                if self.imported is None and self._cached.body:
                    self._fault += "; the last one is used"
                    with suppress(DocumentError):
                        await self._use(zlib.decompress(self._cached.body), self._cached.etag)
            state = ProviderState.UNAVAILABLE if self.imported is None else ProviderState.READY
            if state is not self._status.state:
                self._status = replace(self._status, state=state, since_ns=self._host.now_ns())
            await self._host.set_states({self.name: state})
            return self._fault is None

    async def _keep_current(self, first: asyncio.Task[bool]) -> None:
        is_read, delay_s = await first, FIRST_DELAY_S
        while not is_read or self.service.refresh_s is not None:
            await asyncio.sleep(delay_s if not is_read else self.service.refresh_s or delay_s)
            delay_s = min(delay_s * 2, MAX_DELAY_S) if not is_read else FIRST_DELAY_S
            is_read = await self.refresh()

    async def _read_document(self) -> tuple[bytes, str | None]:
        """Return the document and its entity tag.

        Raises:
            DocumentError: it is too long, or the service does not return it.
            RequestFailed: there was no response.
            OSError: the file cannot be read.
        """
        service, cached = self.service, self._cached
        headers = {"Accept": "application/json, application/yaml, */*;q=0.5"}
        if cached.body and cached.etag is not None:
            headers["If-None-Match"] = cached.etag
        if service.is_remote:
            headers |= await self._document_headers()
        response = await self._fetch(service.document, headers)
        if response.status == _NOT_MODIFIED and cached.body:
            return await asyncio.to_thread(zlib.decompress, cached.body), cached.etag
        return response.body, response.headers.get("etag")

    async def _document_headers(self) -> dict[str, str]:
        headers = self.service.document_headers
        needed = tuple(name for text in headers.values() for name in credentials_in(text))
        values: Mapping[str, str] = await self._host.credentials(needed, None) if needed else {}
        missing = [each for each in needed if each not in values]
        if missing:
            raise DocumentError(f"the credential {missing[0]!r} is not configured; add [credentials.{missing[0]}]")
        return {name: fill_credentials(text, values) for name, text in headers.items()}

    async def _use(self, data: bytes, etag: str | None) -> None:
        """Import a document, and declare its tools."""
        service, place = self.service, self.service.document
        external: Mapping[str, JsonObject | UnreadableDocument] = {}
        if service.references and external_references(data):
            external = await load_external(data, place, self._is_allowed, self._read_other)
        unreadable = [str(each) for each in external.values() if isinstance(each, UnreadableDocument)]
        imported = await asyncio.to_thread(import_document, service, data, place, external=external)
        self._check_origins(imported)
        imported.advice += tuple(_refused(service.name, self._policy, imported.tools))
        self.imported, self._body = imported, data
        self._unreadable = "; ".join(unreadable[:_SHOWN]) or None
        if self._unreadable is not None:
            log.warning("the document of %r: %s", self.name, self._unreadable)
        for each in imported.advice:
            log.warning("the settings of %r: %s", self.name, each)
        self._state = ServiceState(
            service=service,
            client=self._client,
            tokens=self._tokens,
            now_ns=self._host.now_ns,
            responses=imported.responses,
        )
        definitions = imported.definitions()
        shows_new = service.new_tools == "show"
        await self._review.update(self._host.documents, definitions, shows_new=shows_new)
        await self._declare()
        await self._store(imported, data, etag)

    def _check_origins(self, imported: ImportedDocument) -> None:
        """Skip operations whose server changed, so that a changed document cannot redirect credentials."""
        origins = self._cached.origins
        for tool in tuple(imported.tools):
            reason = _origin_fault(tool, origins, has_server=self.service.server is not None)
            if origins and reason is not None:
                imported.skipped.append(SkippedPart(tool.operation.pointer, reason))
                imported.tools.remove(tool)

    async def _declare(self) -> None:
        """Declare the tools of the document, and withdraw those that are gone; a waiting one cannot be called."""
        async with self._declaring:
            present: set[ToolId] = set()
            for count, tool in enumerate(() if self.imported is None else self.imported.tools, 1):
                declared = self._declared_tool(tool)
                present.add(declared.declaration.tool_id)
                if self._offer(declared) is not None:  # its schema cannot be used: the service checks the values
                    schema = pruned(tool.input.schema, 0)
                    contract = InputContract(model_input_schema=schema, runtime_input_schema=schema)
                    loose = replace_record(declared.declaration, input_contract=contract)
                    self._offer(replace(declared, declaration=loose))
                if not count % _DECLARED_AT_A_TIME:
                    await asyncio.sleep(0)
            for tool_id in self._declared.keys() - present:
                gone = self._declared[tool_id]
                withdrawn = replace_record(gone.declaration, lifecycle=Lifecycle.DISABLED)
                self._offer(replace(gone, declaration=withdrawn))
        self._watch_review()

    def _declared_tool(self, tool: OperationTool) -> DeclaredTool:
        """Return a tool; one that waits for a review has the texts that were accepted, and cannot be called."""
        is_polled = self._host.is_durable and _ACCEPTED in tool.operation.responses
        work = PolledWork(self._host.documents, _WORK) if is_polled else None
        declared = declare(self.service, tool, OperationExecutor(self._state, tool, work), later=work)
        advice = self._review.advice(tool.name)
        if advice is None:
            return declared
        new: JsonObject = {"description": tool.operation.key, "inputSchema": {"type": "object"}}
        accepted = self._review.tools.accepted.get(tool.name, new)
        schema = cast("JsonObject", accepted["inputSchema"])
        unreviewed = replace_record(
            declared.declaration,
            lifecycle=Lifecycle.REQUIRES_SETUP,
            title=None,
            description=str(accepted["description"]),
            search_hint=tool.operation.key,
            input_contract=InputContract(model_input_schema=schema, runtime_input_schema=schema),
        )
        return replace(declared, declaration=unreviewed, setup=advice)

    def _offer(self, tool: DeclaredTool) -> str | None:
        fault = self._host.declare(tool)
        if fault is None:
            self._declared[tool.declaration.tool_id] = tool
        return fault

    async def _store(self, imported: ImportedDocument, data: bytes, etag: str | None) -> None:
        cached, digests = self._cached, imported.digests
        if cached.digests and digests != cached.digests:
            changes = describe_changes(cached.digests, digests)
            log.warning("operations of %r changed in its document: %s", self.name, changes)
        body = await asyncio.to_thread(zlib.compress, data, 1) if self.service.is_remote else b""
        body = body if len(body) <= MAX_CACHED_BYTES else b""
        stored = CachedDocument(
            place=self.service.document,
            etag=etag,
            body=body,
            digests=digests,
            origins=cached.origins or _origins(self.service, imported),
        )
        if stored != cached:
            with suppress(StoreError):
                await self._host.documents.put(_KIND, self.name, write_own(stored))
        self._cached = stored

    def _is_allowed(self, where: str) -> bool:
        """Return whether the settings allow a document; one that leaves its folder by `..` is not below an entry."""
        allowed = self.service.references if ".." not in unquote(urlsplit(where).path).split("/") else ()
        return any(where == each or (each.endswith("/") and where.startswith(each)) for each in allowed)

    async def _read_other(self, where: str) -> bytes:
        return (await self._fetch(where)).body

    async def _fetch(self, where: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """Return a file or the response of a URL.

        Raises:
            DocumentError: it is too long, takes too long, or has an error status; names the setting to change.
            RequestFailed: there was no response.
            OSError: the file cannot be read.
        """
        limit = self.service.max_document_bytes
        if not where.startswith(("http://", "https://")):
            return HttpResponse(status=200, headers={}, body=await asyncio.to_thread(_read_file, where, limit))
        try:
            response = await self._client.send(HttpRequest(method="GET", url=where, headers=headers or {}), limit)
        except RequestFailed as error:
            if error.code not in _LIMITS:
                raise
            raise DocumentError(f"{error}; raise {_LIMITS[error.code]}") from error
        if not response.is_success and response.status != _NOT_MODIFIED:
            raise DocumentError(f"its URL answered {response.status}; check the URL and document_headers")
        return response

    async def _post_form(self, url: str, headers: Mapping[str, str], form: bytes) -> bytes:
        request = HttpRequest(method="POST" if form else "GET", url=url, headers=headers, body=form or None)
        response = await self._client.send(request, 2**20)
        if not response.is_success:
            raise DocumentError(f"the token endpoint answered {response.status}; check the client and its secret")
        return response.body

    def preview(self, tool: str, arguments: JsonObject) -> HttpRequest:
        """Return the request that a call would send, with secrets masked; nothing is sent.

        Raises:
            ConfigError: there is no such tool.
            ArgumentError: an argument cannot be sent.
        """
        tools = {each.name: each for each in ([] if self.imported is None else self.imported.tools)}
        found = tools.get(tool.removeprefix(f"{self.name}."))
        if found is None:
            raise ConfigError(f"the source {self.name!r} has no tool {tool!r}; {suggestion(tool, tools)}")
        declared = self._declared.get(ToolId(f"tool_{self.name}.{found.name}"))
        contract = None if declared is None else declared.declaration.input_contract
        schema = (contract and contract.runtime_input_schema) or found.input.schema
        for each in Checker(schema).misfits(arguments):
            raise ArgumentError(
                f"the arguments do not fit at {each.pointer or '/'}: expected {each.expected}; {each.advice}"
            )
        credentials = RequestCredentials()
        for use in found.uses:
            credentials.add(use, MASK)
        values = dict.fromkeys(found.credentials, MASK)
        return build_request(self.service, found, arguments_of(found, arguments)[0], credentials, values)


def _refused(source: str, policy: SsrfPolicy, tools: Iterable[OperationTool]) -> Iterator[str]:
    """Yield the servers to which the SSRF guard sends no request, each with the setting that allows it."""
    for url in dict.fromkeys(each.base_url for each in tools):
        try:
            check_url(url, policy)
        except RecordError as error:
            remedy = f'to allow it, write allow = ["{urlsplit(url).hostname}"] into [sources.{source}]'
            yield f"requests to {url!r} are not allowed: {error}; {remedy}"


def _origins(service: OpenApiService, imported: ImportedDocument) -> tuple[str, ...]:
    """Return the origins that requests with credentials of a document may go to."""
    bases: set[str] = set()
    for each in imported.operations:
        with suppress(DocumentError):
            bases.add(base_url(service, each.servers, imported.place))
    tokens = {each.token_url_from(base) for base in bases for each in imported.security.schemes.values()}
    return tuple(sorted(map(origin_of, bases.union(filter(None, tokens)))))


def _origin_fault(tool: OperationTool, origins: Iterable[str], *, has_server: bool) -> str | None:
    """Return why requests of a tool may not be sent: they would go to another origin than before."""
    if not has_server and origin_of(tool.base_url) not in origins:
        return f"its server is now {origin_of(tool.base_url)!r}; write server in the settings if that is right"
    for use in tool.uses:
        is_own = isinstance(use.value, str) or use.value.token_url is not None or use.token_url is None
        if not is_own and origin_of(use.token_url or "") not in origins:
            place = f"the token endpoint of {use.name!r} is now at {origin_of(use.token_url or '')!r}"
            return f"{place}; write token_url in the settings if that is right"
    return None


def _read_file(place: str, max_bytes: int) -> bytes:
    with Path(place.removeprefix("file://")).open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise DocumentError(f"it has more than {max_bytes} bytes; raise max_document_bytes")
    return data
