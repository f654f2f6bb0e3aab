"""One call of an operation: its request, attempts, pages and polling, and its response or failure."""

import asyncio
import logging
import random
from collections.abc import Callable
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
from agenttool.adapters.openapi.requests import ArgumentError, arguments_of, build_request
from agenttool.adapters.openapi.security import RequestCredentials, TokenCache
from agenttool.adapters.openapi.settings import OpenApiService
from agenttool.adapters.openapi.translate import FetchedPages, failure_of, output_of
from agenttool.adapters.polled_work import PolledWork
from agenttool.codec import object_of
from agenttool.errors import RecordError, ToolFailure
from agenttool.ports.executor import Job, call_failure
from agenttool.records import AbortReason, ErrorClass
from agenttool.records import replace as replace_record

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
        return await _OperationCall(self.state, self.tool, self.work, job).run()


class _OperationCall:
    """One call.

    Attributes:
        sent: its last request, which may be for a page or for the state of accepted work.
        has_begun: whether the service answered a request of the call, or of an earlier process.
    """

    def __init__(self, state: ServiceState, tool: OperationTool, work: PolledWork | None, job: Job) -> None:
        self.state, self.tool, self.work, self.job = state, tool, work, job
        self.service = state.service
        self.values = {name: secret.value for name, secret in job.credentials.items()}
        self.arguments, self.pages = arguments_of(tool, job.call_input)
        self.has_begun = False

    async def run(self) -> object:
        """Return the output of the call."""
        status_url = None if self.work is None else await self.work.get(self.job.invocation_id)
        self.sent, self.has_begun = await self._build(), status_url is not None
        request = self.sent if status_url is None else _status_request(self.sent, status_url)
        response = await self._send(request)
        if response.status == _ACCEPTED or status_url is not None:
            async with self.job.outside(is_last=True):  # the service schedules the work that it accepted
                response = await self._poll(response, status_url)
        if not response.is_success:
            raise self._error_response(response)
        notes = self._violation(response)
        if self.pages > 1 and is_json(response.content_type):
            response, notes = await self._fetch_pages(response, notes)
        mapping = self.tool.mapping(each.name for each in self.tool.uses)
        return output_of(response, mapping, *notes, secrets=self.sent.secrets)

    async def _build(self) -> HttpRequest:
        """Return the first request of the call, with tokens that are valid now."""
        credentials = RequestCredentials()
        error_class, code = ErrorClass.CREDENTIAL_MISSING, "token"
        try:
            for use in self.tool.uses:
                credentials.add(use, await self.state.tokens.get(use, self.values, self.job.outside))
            code = "credential"
            request = build_request(self.service, self.tool, self.arguments, credentials, self.values)
        except (DocumentError, RequestFailed, ArgumentError) as error:
            if isinstance(error, ArgumentError):
                error_class, code = ErrorClass.INVALID_ARGUMENTS, "argument"
            reason = "no access token could be fetched: " if code == "token" else ""
            raise call_failure(error_class, f"nothing was sent: {reason}{error}", code=code) from error
        header = self.service.idempotency_header
        if header is None:
            return request
        others = {name: text for name, text in request.headers.items() if name.lower() != header.lower()}
        return replace(request, headers={**others, header: str(self.job.invocation_id)})

    async def _send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; once more with a new token if the service does not accept a fetched one."""
        self.sent = request
        response = await self._attempt(request)
        if response.status == _UNAUTHORIZED and not all(isinstance(use.value, str) for use in self.tool.uses):
            self.state.tokens.forget(request.secrets)
            try:
                fresh = await self._build()
            except ToolFailure:
                if not self.has_begun:
                    raise
                return response  # the failure would deny the request that was sent
            headers = {name: fresh.headers.get(name, each) for name, each in request.headers.items()}
            secrets = tuple(dict.fromkeys((*request.secrets, *fresh.secrets)))
            self.sent = replace(request, headers=headers, secrets=secrets)
            response = await self._attempt(self.sent)
        self.has_begun = True
        return response

    def _may_repeat(self, method: str) -> bool:
        """Return whether a request may be sent twice: as the owner states, or by its method or its key."""
        stated = self.tool.facts.idempotent
        if stated is not None and method == self.tool.operation.method:
            return stated
        return method in IDEMPOTENT_METHODS or self.service.idempotency_header is not None

    async def _attempt(self, request: HttpRequest) -> HttpResponse:
        """Send a request, again if it may be repeated and that may help."""
        may_repeat = self._may_repeat(request.method)
        attempt = 0
        while True:
            attempt += 1
            await self._await_rate_limit(is_sent=self.has_begun or attempt > 1)
            try:
                response = await self.state.client.send(request, self.service.max_response_bytes)
            except RequestFailed as error:
                is_repeated = (may_repeat or not error.is_sent) and error.code in _REPEATED_FAULTS
                if not is_repeated or not await self._pause(attempt, 0):
                    raise self._no_response(error, attempt) from error
                continue
            wait_s = response.retry_after_s or 0
            if response.status in _BUSY and wait_s:
                self.state.blocked_until_ns = self.state.now_ns() + round(wait_s * 1e9)
            is_repeated = may_repeat and response.status in _REPEATED
            if not is_repeated or not await self._pause(attempt, wait_s):
                return response

    async def _await_rate_limit(self, *, is_sent: bool) -> None:
        """Wait until the service accepts requests again; fail if the call would end first."""
        wait_s = (self.state.blocked_until_ns - self.state.now_ns()) / 1e9
        if wait_s > 0 and not await self._wait(wait_s, f"waits {wait_s:.1f} s, as the service asked"):
            message = f"{self.service.name!r} asked for no requests for {wait_s:.0f} s; call again then"
            message = message if is_sent else f"nothing was sent: {message}"
            is_safe = not is_sent or self._may_repeat(self.tool.operation.method)
            raise call_failure(
                ErrorClass.RATE_LIMITED, message, code="rate_limited", is_safe=is_safe, retry_after=wait_s
            )

    async def _pause(self, attempt: int, retry_after_s: float) -> bool:
        """Wait before another attempt; return False at once if there is none, or the call would end first."""
        if attempt >= self.service.attempts:
            return False
        backoff = min(FIRST_DELAY_S * 2 ** (attempt - 1), MAX_DELAY_S)
        delay_s = max(random.uniform(backoff / 2, backoff), retry_after_s)  # noqa: S311 -- not a secret
        return await self._wait(delay_s, f"attempt {attempt} failed; tries again in {delay_s:.1f} s")

    async def _wait(self, wait_s: float, reason: str) -> bool:
        """Wait, and report why; return False at once if the call would end first."""
        limit = self.job.deadline_ns
        if limit is not None and self.state.now_ns() + wait_s * 1e9 >= limit:
            return False
        self.job.report(reason)
        async with self.job.outside():
            await asyncio.sleep(wait_s)
        return True

    async def _poll(self, response: HttpResponse, status_url: str | None) -> HttpResponse:
        """Poll work that the service accepted until it ends; `status_url` is the URL that an earlier process polled."""
        is_stored = status_url is not None
        is_left, delay_s = False, FIRST_DELAY_S
        try:
            while response.status == _ACCEPTED or (
                status_url is not None and response.is_success and _is_running(response)
            ):
                target = next((each for name in _POLLED if (each := response.headers.get(name))), None)
                status_url = status_url if target is None else resolve_in_origin(self.sent.url, target)
                if status_url is None:
                    break
                if self.work is not None:
                    await self.work.store(self.job.invocation_id, status_url)
                    is_stored = True
                self.job.report("the service works on it")
                await asyncio.sleep(response.retry_after_s or delay_s)
                delay_s = min(delay_s * 2, MAX_DELAY_S)
                response = await self._send(_status_request(self.sent, status_url))
        except asyncio.CancelledError:
            is_left = self.job.cancel.reason is AbortReason.RUNTIME_SHUTDOWN
            raise
        finally:
            if self.work is not None and is_stored and not is_left:
                await self.work.store(self.job.invocation_id, None)
        return response

    async def _fetch_pages(self, response: HttpResponse, notes: list[str]) -> tuple[HttpResponse, list[str]]:
        """Return a response with the items of several pages, and the notes with the reason why there may be more."""
        fetched = FetchedPages(self.service, self.pages, response)
        while (following := fetched.add(response, self.sent.url)) is not None:
            number = len(fetched.pages) + 1
            self.job.report(f"page {number}")
            try:
                response = await self._send(self.sent.with_url(following))
                if not response.is_success:
                    raise self._error_response(response)
            except ToolFailure as failure:
                fetched.notes.append(f"page {number} is missing, so there may be more: {failure.error.message}")
                break
            notes = notes or self._violation(response)
        return fetched.joined(), [*notes, *fetched.notes]

    def _violation(self, response: HttpResponse) -> list[str]:
        """Return how a response violates the document; nothing if it fits or the document has no schema for it."""
        kind, responses = response.content_type, self.state.responses
        if not is_json(kind):  # it may be the HTML page of a login or of a proxy
            listed = responses.content_of(self.tool, response.status)
            if not response.body or not kind or not listed or not all(map(is_json, listed)):
                return []
            return [f"the response is {kind}, but the service's own document lists {', '.join(listed)}"]
        checker = responses.checker_of(self.tool, response.status, kind)
        try:
            if checker is None or checker.accepts_parsed(response.value):
                return []
        except RecordError:
            return []
        first = checker.misfits(response.value)[0]
        note = (
            f"the response does not fit the schema of the service's own document at {first.pointer or '/'}: "
            f"expected {first.expected}"
        )
        if self.tool.name not in self.state.violations:
            self.state.violations.add(self.tool.name)
            log.warning("%s of %r: %s", self.tool.name, self.service.name, note)
        return [note]

    def _error_response(self, response: HttpResponse) -> ToolFailure:
        method, name = self.tool.operation.method, self.service.name
        is_rejected = response.status in _REJECTED and self.sent.method == method and not response.note
        is_safe = is_rejected or method in IDEMPOTENT_METHODS
        failure = failure_of(response, service=name, is_safe=is_safe, secrets=self.sent.secrets)
        if response.status != _UNAUTHORIZED or not self.tool.missing:
            return failure
        schemes = ", ".join(self.tool.missing)
        message = f"{failure.error.message}; the settings of {name!r} have no security for {schemes}"
        return ToolFailure(replace_record(failure.error, message=message))

    def _no_response(self, error: RequestFailed, attempts: int) -> ToolFailure:
        name, is_sent = self.service.name, error.is_sent or self.has_begun
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
        status = object_of(response.value).get("status") if is_json(response.content_type) else None
    except RecordError:
        return False
    return isinstance(status, str) and status.replace(" ", "").lower() in _RUNNING
