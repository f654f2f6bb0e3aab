"""One call of an operation: its request, attempts, pages and polling, and its response or failure."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from agenttool.adapters.openapi.declare import OperationTool
from agenttool.adapters.openapi.document import DocumentError
from agenttool.adapters.openapi.http import (
    HttpRequest,
    HttpResponse,
    RequestFailed,
    ServiceClient,
    resolve_in_origin,
)
from agenttool.adapters.openapi.importer import ResponseCheckers
from agenttool.adapters.openapi.operations import IDEMPOTENT_METHODS, is_json
from agenttool.adapters.openapi.pages import FetchedPages
from agenttool.adapters.openapi.requests import ArgumentError, arguments_of, build_request
from agenttool.adapters.openapi.security import RequestCredentials, TokenCache
from agenttool.adapters.openapi.settings import OpenApiService
from agenttool.adapters.openapi.translate import (
    failure_of,
    output_of,
    read_value,
)
from agenttool.adapters.polled_work import PolledWork
from agenttool.errors import RecordError, ToolFailure
from agenttool.ports.executor import Job, call_failure
from agenttool.records import AbortReason, ErrorClass, JsonObject, OpenApiMapping
from agenttool.records import replace as replace_record

Build = Callable[[], Awaitable[HttpRequest]]

log = logging.getLogger("agenttool.openapi")

FIRST_DELAY_S, MAX_DELAY_S = 0.5, 10.0
_REPEATED = (408, 425, 429, 500, 502, 503, 504)
_REPEATED_FAULTS = ("not_connected", "connection_lost", "timeout")
_ACCEPTED, _UNAUTHORIZED, _BUSY = 202, 401, (403, 429, 503)
_REJECTED = (400, 401, 405, 413, 415, 422, 429)
"""The statuses of a request that the service did not accept, so that it had no effect."""

_POLLED = ("location", "operation-location", "azure-asyncoperation")
_RUNNING = frozenset(
    {"running", "pending", "inprogress", "in_progress", "queued", "accepted", "notstarted", "processing"}
)
_FAULT_CLASSES = {
    "too_large": ErrorClass.RESULT_TOO_LARGE,
    "refused": ErrorClass.EXECUTION_FAILED,
    "redirect": ErrorClass.EXECUTION_FAILED,
}


@dataclass(slots=True)
class ServiceState:
    """What the calls of one service share.

    Attributes:
        blocked_until_ns: until when the service asked for no requests.
    """

    service: OpenApiService
    client: ServiceClient
    tokens: TokenCache
    now_ns: Callable[[], int]
    responses: ResponseCheckers
    blocked_until_ns: int = 0
    violations: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True, eq=False)
class OperationExecutor:
    """Sends the requests of one operation.

    Attributes:
        work: where the URLs of accepted work are stored, so that it outlives this process; None if it does not.
    """

    state: ServiceState
    tool: OperationTool
    work: PolledWork | None = None

    async def start(self, job: Job, /) -> object:
        """Send the request of a call, and return its output.

        Raises:
            ToolFailure: an argument cannot be sent, there was no response, or it is an error.
        """
        values = {name: secret.value for name, secret in job.credentials.items()}
        arguments, pages = arguments_of(self.tool, job.call_input)
        known = None if self.work is None else await self.work.get(job.invocation_id)

        async def build() -> HttpRequest:
            return await self._build(job, arguments, values)

        request = await build()
        request = request if known is None else _status_request(request, known)
        response, request = await self._send_authorized(job, request, build, has_begun=known is not None)
        response, request = await self._poll(job, response, request, build, known)
        if not response.is_success:
            raise self._error_response(response, request)
        if pages > 1 and is_json(response.content_type):
            return await self._fetch_pages(job, response, pages, request, build)
        return output_of(response, self._mapping, *self._violation(response), secrets=request.secrets)

    @property
    def _mapping(self) -> OpenApiMapping:
        return self.tool.mapping(each.scheme for each in self.tool.uses)

    async def _send_authorized(
        self, job: Job, request: HttpRequest, build: Build, *, has_begun: bool
    ) -> tuple[HttpResponse, HttpRequest]:
        """Send a request; once more with a new token if the service does not accept a fetched one.

        Args:
            job: the call.
            request: the request, which may be for a page or for the state of accepted work.
            build: returns the first request of the call with a token that is valid now.
            has_begun: whether the service answered an earlier request of the call.
        """
        response = await self._send(job, request, has_begun=has_begun)
        if response.status != _UNAUTHORIZED or all(use.client is None for use in self.tool.uses):
            return response, request
        self.state.tokens.forget(request.secrets)
        try:
            fresh = await build()
        except ToolFailure:
            if has_begun:  # its message would deny the request that was sent
                return response, request
            raise
        headers = {name: fresh.headers.get(name, each) for name, each in request.headers.items()}
        request = replace(request, headers=headers, secrets=tuple(dict.fromkeys((*request.secrets, *fresh.secrets))))
        return await self._send(job, request, has_begun=has_begun), request

    async def _build(self, job: Job, arguments: JsonObject, values: Mapping[str, str]) -> HttpRequest:
        credentials = RequestCredentials()
        try:
            for use in self.tool.uses:
                credentials.add(use, await self.state.tokens.get(use, values))
        except (DocumentError, RequestFailed) as error:
            message = f"nothing was sent: no access token could be fetched: {error}"
            raise call_failure(ErrorClass.CREDENTIAL_MISSING, message, code="token") from error
        try:
            request = build_request(self.state.service, self.tool, arguments, credentials, values)
        except ArgumentError as error:
            raise call_failure(ErrorClass.INVALID_ARGUMENTS, f"nothing was sent: {error}", code="argument") from error
        except DocumentError as error:
            raise call_failure(
                ErrorClass.CREDENTIAL_MISSING, f"nothing was sent: {error}", code="credential"
            ) from error
        header = self.state.service.idempotency_header
        if header is None:
            return request
        others = {name: text for name, text in request.headers.items() if name.lower() != header.lower()}
        return replace(request, headers={**others, header: str(job.invocation_id)})

    def _may_repeat(self, method: str) -> bool:
        """Return whether a request may be sent twice: as the owner states, or by its method or its key."""
        stated = self.tool.facts.idempotent
        if stated is not None and method == self.tool.operation.method:
            return stated
        return method in IDEMPOTENT_METHODS or self.state.service.idempotency_header is not None

    async def _send(self, job: Job, request: HttpRequest, *, has_begun: bool) -> HttpResponse:
        """Send a request, again if it may be repeated and that may help."""
        service = self.state.service
        may_repeat = self._may_repeat(request.method)
        attempt = 0
        while True:
            attempt += 1
            await self._await_rate_limit(job, is_sent=has_begun or attempt > 1)
            try:
                response = await self.state.client.send(request, service.max_response_bytes)
            except RequestFailed as error:
                is_repeated = (may_repeat or not error.is_sent) and error.code in _REPEATED_FAULTS
                if not is_repeated or attempt >= service.attempts or not await self._pause(job, attempt, None):
                    raise self._no_response(error, attempt, is_sent=error.is_sent or has_begun) from error
                continue
            if response.status in _BUSY and response.retry_after_s:
                self.state.blocked_until_ns = self.state.now_ns() + round(response.retry_after_s * 1e9)
            is_repeated = may_repeat and response.status in _REPEATED and attempt < service.attempts
            if not is_repeated or not await self._pause(job, attempt, response.retry_after_s):
                return response

    async def _await_rate_limit(self, job: Job, *, is_sent: bool) -> None:
        """Wait until the service accepts requests again; fail if the call would end first."""
        wait_s = (self.state.blocked_until_ns - self.state.now_ns()) / 1e9
        if wait_s <= 0:
            return
        if not self._has_time(job, wait_s):
            message = f"{self.state.service.name!r} asked for no requests for {wait_s:.0f} s; call again then"
            message = message if is_sent else f"nothing was sent: {message}"
            is_safe = not is_sent or self._may_repeat(self.tool.operation.method)
            raise call_failure(
                ErrorClass.RATE_LIMITED, message, code="rate_limited", is_safe=is_safe, retry_after=wait_s
            )
        job.report(f"waits {wait_s:.1f} s, as the service asked")
        await asyncio.sleep(wait_s)

    async def _pause(self, job: Job, attempt: int, retry_after_s: float | None) -> bool:
        """Wait before another attempt; return False at once if the call would end first."""
        backoff = min(FIRST_DELAY_S * 2 ** (attempt - 1), MAX_DELAY_S)
        delay_s = max(random.uniform(backoff / 2, backoff), retry_after_s or 0.0)  # noqa: S311 -- not a secret
        if not self._has_time(job, delay_s):
            return False
        job.report(f"attempt {attempt} failed; tries again in {delay_s:.1f} s")
        await asyncio.sleep(delay_s)
        return True

    def _has_time(self, job: Job, wait_s: float) -> bool:
        limit = job.deadline_ns
        return limit is None or self.state.now_ns() + wait_s * 1e9 < limit

    async def _poll(
        self, job: Job, response: HttpResponse, sent: HttpRequest, build: Build, status_url: str | None
    ) -> tuple[HttpResponse, HttpRequest]:
        """Poll work that the service accepted until it ends.

        Args:
            job: the call.
            response: the response to `sent`.
            sent: the last request.
            build: see `_send_authorized`.
            status_url: the URL that an earlier process polled; None if this call starts the work.
        """
        is_stored = status_url is not None
        is_left, delay_s = False, FIRST_DELAY_S
        try:
            while response.status == _ACCEPTED or (
                status_url is not None and response.is_success and _is_running(response)
            ):
                target = next((each for name in _POLLED if (each := response.headers.get(name))), None)
                status_url = status_url if target is None else resolve_in_origin(sent.url, target)
                if status_url is None:
                    break
                if self.work is not None:
                    await self.work.store(job.invocation_id, status_url)
                    is_stored = True
                job.report("the service works on it")
                await asyncio.sleep(response.retry_after_s or delay_s)
                delay_s = min(delay_s * 2, MAX_DELAY_S)
                response, sent = await self._send_authorized(
                    job, _status_request(sent, status_url), build, has_begun=True
                )
        except asyncio.CancelledError:
            is_left = job.cancel.reason is AbortReason.RUNTIME_SHUTDOWN
            raise
        finally:
            if self.work is not None and is_stored and not is_left:
                await self.work.store(job.invocation_id, None)
        return response, sent

    async def _fetch_pages(
        self, job: Job, response: HttpResponse, pages: int, sent: HttpRequest, build: Build
    ) -> object:
        """Return the joined pages of a list, with a note if there may be more."""
        service = self.state.service
        fetched = FetchedPages(
            self.tool.operation.parameters, min(pages, service.max_pages), service.max_response_bytes
        )
        violation: list[str] = []
        while True:
            violation = violation or self._violation(response)
            following = fetched.add(response, sent.url)
            if following is None:
                break
            job.report(f"page {len(fetched.pages) + 1}")
            try:
                response, sent = await self._send_authorized(job, sent.with_url(following), build, has_begun=True)
                failure = None if response.is_success else self._error_response(response, sent)
            except ToolFailure as error:
                failure = error
            if failure is not None:
                number = len(fetched.pages) + 1
                fetched.notes.append(f"page {number} is missing, so there may be more: {failure.error.message}")
                break
        return output_of(fetched.joined(), self._mapping, *violation, *fetched.notes, secrets=sent.secrets)

    def _violation(self, response: HttpResponse) -> list[str]:
        """Return how a response violates the document; nothing if it fits or the document has no schema for it."""
        if not is_json(response.content_type):
            return self._unlisted_type(response)
        checker = self.state.responses.checker_of(self.tool, response.status, response.content_type)
        try:
            value = read_value(response) if checker is not None else None
        except RecordError:
            return []
        if checker is None or checker.accepts(value):
            return []
        first = checker.misfits(value)[0]
        note = (
            f"the response does not fit the schema of the service's own document at {first.pointer or '/'}: "
            f"expected {first.expected}"
        )
        if self.tool.name not in self.state.violations:
            self.state.violations.add(self.tool.name)
            log.warning("%s of %r: %s", self.tool.name, self.state.service.name, note)
        return [note]

    def _unlisted_type(self, response: HttpResponse) -> list[str]:
        """Return a note about a response that should be JSON, such as the HTML page of a login or of a proxy."""
        try:
            listed = self.state.responses.content_of(self.tool, response.status)
        except DocumentError:
            return []
        if not response.body or not response.content_type or not listed or not all(map(is_json, listed)):
            return []
        return [f"the response is {response.content_type}, but the service's own document lists {', '.join(listed)}"]

    def _error_response(self, response: HttpResponse, sent: HttpRequest) -> ToolFailure:
        method = self.tool.operation.method
        is_rejected = response.status in _REJECTED and sent.method == method and not response.note
        is_safe = is_rejected or method in IDEMPOTENT_METHODS
        name = self.state.service.name
        failure = failure_of(response, service=name, is_safe=is_safe, secrets=sent.secrets)
        if response.status != _UNAUTHORIZED or not self.tool.missing:
            return failure
        schemes = ", ".join(self.tool.missing)
        message = f"{failure.error.message}; the settings of {name!r} have no security for {schemes}"
        return ToolFailure(replace_record(failure.error, message=message))

    def _no_response(self, error: RequestFailed, attempts: int, *, is_sent: bool) -> ToolFailure:
        name = self.state.service.name
        count = "" if attempts == 1 else f" after {attempts} attempts"
        if not is_sent:
            message = f"nothing was sent to {name!r}{count}: {error}"
        elif error.code == "too_large":
            message = f"the call of {name!r} was made, but {error}; ask for less, or raise max_response_bytes"
        else:
            message = (
                f"{name!r} gave no usable response{count}: {error}; it may have acted, so check before you call again"
            )
        error_class = _FAULT_CLASSES.get(error.code, ErrorClass.DEPENDENCY_UNAVAILABLE)
        is_safe = not is_sent or self._may_repeat(self.tool.operation.method)
        return call_failure(error_class, message, code=error.code, is_safe=is_safe)


def _status_request(request: HttpRequest, status_url: str) -> HttpRequest:
    """Return the request that polls accepted work."""
    headers = {name: each for name, each in request.headers.items() if name.lower() != "content-type"}
    return replace(request.with_url(status_url), method="GET", body=None, headers=headers)


def _is_running(response: HttpResponse) -> bool:
    """Return whether the body of a polled response says that the work continues."""
    try:
        value = read_value(response) if is_json(response.content_type) else None
    except RecordError:
        return False
    status = value.get("status") if isinstance(value, dict) else None
    return isinstance(status, str) and status.replace(" ", "").lower() in _RUNNING
