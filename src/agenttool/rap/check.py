"""A black-box check of a provider in any language: does it do what runtimes rely on?

The check runs no tool. It sends unknown operations, arguments that fit no schema, and notices about unknown threads and
calls.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agenttool.adapters.rap.credentials import Credential, origin_of
from agenttool.adapters.rap.listener import Listener
from agenttool.adapters.rap.wire import Callback, Manifest, ToolResultMessage, read_callback, read_manifest
from agenttool.codec import json_bytes
from agenttool.errors import ConfigError, RecordError
from agenttool.http.client import HttpClient, HttpReply
from agenttool.http.request_body import read_body
from agenttool.http.ssrf import SsrfPolicy
from agenttool.rap.declare import check_display_script
from agenttool.records import JsonObject

RESULT_TIMEOUT_S = 10.0
"""How long an error result that needs no work may take."""

_REPEAT_DELAY_S = 0.5
_UNAUTHORIZED = (401, 403)
_MAX_QUOTED = 200
_MAX_BODY_BYTES = 1_000_000
_LOOPBACK = "127.0.0.1"
_JSON = "application/json"
_NO_URL = b'{"operation":"x","arguments":{}}'
_ECHO_RULES = "RAP-003 RAP-006 RAP-070 RAP-071 RAP-084"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One expectation, and whether the provider met it.

    Attributes:
        rules: the requirement ids of the protocol.
        is_met: None if it could not be checked.
        detail: what was observed instead, or why it was not checked.
    """

    rules: tuple[str, ...]
    expectation: str
    is_met: bool | None
    detail: str = ""


class CallbackInbox:
    """A server on this machine that collects callbacks by the name in the query of their URL."""

    def __init__(self) -> None:
        self._received: dict[str, list[Callback | str]] = {}
        self._arrived = asyncio.Event()
        self.listener = Listener(self, (_LOOPBACK, 0))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Receive one message."""
        request = Request(scope, receive)
        name = request.query_params.get("check", "")
        try:
            message: Callback | str = read_callback(await read_body(request.headers, receive, _MAX_BODY_BYTES))
        except (RecordError, HTTPException) as error:
            message = str(error)
        self._received.setdefault(name, []).append(message)
        self._arrived.set()
        await Response()(scope, receive, send)

    def messages(self, name: str) -> tuple[Callback | str, ...]:
        """Return the messages for a name; an invalid one as the text of its error."""
        return tuple(self._received.get(name, ()))

    async def first(self, name: str, timeout_s: float) -> Callback | str | None:
        """Wait for the first message for a name; None if there is none in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.messages(name):
                    self._arrived.clear()
                    await self._arrived.wait()
        return next(iter(self.messages(name)), None)


@asynccontextmanager
async def open_check(url: str, credential: Credential | None = None) -> AsyncGenerator["ProviderCheck"]:
    """Open a check of the provider at a base URL; its callbacks are received on this machine.

    Raises:
        ConfigError: it is not a URL.
    """
    try:
        host = urlsplit(origin_of(url)).hostname
    except ConfigError:
        host = None
    if not host:
        raise ConfigError(f"a provider is named by its base URL, such as 'https://gh.example', got {url!r}; correct it")
    client, inbox = HttpClient(SsrfPolicy.parse([host])), CallbackInbox()
    inbox.listener.start()
    try:
        yield ProviderCheck(url.rstrip("/"), credential, client, inbox)
    finally:
        await inbox.listener.stop()
        await client.close()


class ProviderCheck:
    """The check of one provider."""

    def __init__(self, base: str, credential: Credential | None, client: HttpClient, inbox: CallbackInbox) -> None:
        self._base = base
        self._credential = credential
        self._client = client
        self._inbox = inbox
        self._thread = f"check-{secrets.token_hex(6)}"
        self._findings: list[CheckFinding] = []

    async def findings(self) -> list[CheckFinding]:
        """Run all checks; without a valid manifest only the first."""
        manifest = await self._check_manifest()
        if manifest is not None:
            self._check_scripts(manifest)
            await self._check_errors(manifest)
            await self._check_replies(manifest.endpoint)
        return self._findings

    def _add(self, rules: str, expectation: str, is_met: bool | None, detail: str = "") -> None:  # noqa: FBT001 -- as in a finding
        self._findings.append(
            CheckFinding(rules=tuple(rules.split()), expectation=expectation, is_met=is_met, detail=detail)
        )

    async def _check_manifest(self) -> Manifest | None:
        url = f"{self._base}/.well-known/rap-toolset"
        reply = await self._client.get(url, self._headers("GET", url))
        try:
            manifest, detail = (read_manifest(reply.body), "") if reply.is_accepted else (None, _describe(reply))
        except RecordError as error:
            manifest, detail = None, str(error)
        is_met = None if _is_inconclusive(reply) else manifest is not None
        rules = "RAP-140 RAP-146 RAP-147 RAP-148 RAP-149 RAP-151"
        self._add(rules, "serves a manifest that is valid as a whole", is_met, detail)
        return manifest

    def _check_scripts(self, manifest: Manifest) -> None:
        """Check that display scripts surely return a text; a script of another form is not run, so not checked."""
        for tool in manifest.tools:
            if isinstance(tool.display_script, str):
                expectation = f"shows calls of {tool.name!r} by a text"
                try:
                    check_display_script(tool.display_script)
                    self._add("RAP-166", expectation, is_met=True)
                except ConfigError as error:
                    self._add("RAP-166", expectation, None, str(error))

    async def _check_errors(self, manifest: Manifest) -> None:
        unknown = self._invocation("no_such_operation", {}, call_id="")
        invalid = self._invocation(manifest.tools[0].name, [], call_id="echo me")
        is_met = await self._check_error_result(manifest, unknown, "RAP-045", "an unknown operation")
        await self._check_error_result(manifest, invalid, "RAP-046", "arguments that are not an object")
        repeated = await self._post(manifest.endpoint, json_bytes(unknown))
        await asyncio.sleep(_REPEAT_DELAY_S)
        count = len(self._inbox.messages(str(unknown["id"])))
        is_met = (repeated.is_accepted and count == 1) if is_met else None
        detail = "" if is_met else f"{_describe(repeated)}, and {count} results came"
        self._add("RAP-402", "runs a repeated call once", is_met, detail)

    async def _check_error_result(
        self, manifest: Manifest, invocation: JsonObject, rule: str, subject: str
    ) -> bool | None:
        """Expect an acknowledgement, and then an error result that echoes the ids; return whether it came."""
        rules, expectation = f"RAP-040 {rule} RAP-047", f"acknowledges {subject}, and sends an error result"
        reply = await self._post(manifest.endpoint, json_bytes(invocation))
        if not reply.is_accepted:
            detail = f"{_describe(reply)}; if it posts to public addresses only, let it allow 127.0.0.1 for this"
            self._add(rules, expectation, None, detail)
            return None
        result = await self._inbox.first(str(invocation["id"]), RESULT_TIMEOUT_S)
        errors = ["no result came"] if result is None else _result_errors(result, invocation)
        self._add(f"{rules} {_ECHO_RULES}", expectation, not errors, "; ".join(errors))
        return not errors

    async def _check_replies(self, endpoint: str) -> None:
        call = json_bytes(self._invocation("no_such_operation", {}))
        notice = json_bytes({"thread_id": f"{self._thread}/../..", "tool_call_id": "unknown"})
        cancel, close = "/cancel_tool_call", "/close_thread"
        for rule, expectation, url, body, kind, status in (
            ("RAP-343", "rejects a body that is not an object", endpoint, b"[]", _JSON, 400),
            ("RAP-407", "rejects a call without a callback URL", endpoint, _NO_URL, _JSON, 400),
            ("RAP-411", "rejects a body that is not labeled as JSON", endpoint, call, "text/plain", 415),
            ("RAP-286", f"accepts {cancel} for an unknown thread", self._base + cancel, notice, _JSON, 200),
            ("RAP-303", f"accepts {close} for an unknown thread", self._base + close, notice, _JSON, 200),
        ):
            reply = await self._post(url, body, kind)
            is_met = None if _is_inconclusive(reply) else reply.status == status
            self._add(rule, expectation, is_met, "" if is_met else _describe(reply))

    def _invocation(self, operation: str, arguments: JsonObject | list[object], **members: str) -> JsonObject:
        name = f"check-{secrets.token_hex(6)}"
        callback_url = f"{self._inbox.listener.url}/{secrets.token_urlsafe(16)}?check={name}"
        required = {"operation": operation, "arguments": arguments, "id": name, "group_id": self._thread}
        return {**required, "callback_url": callback_url, **members}  # pyright: ignore[reportReturnType] -- one of the arguments is invalid on purpose

    async def _post(self, url: str, body: bytes, kind: str = _JSON) -> HttpReply:
        return await self._client.post(url, body, {**self._headers("POST", url, body), "Content-Type": kind})

    def _headers(self, method: str, url: str, body: bytes = b"") -> dict[str, str]:
        return {} if self._credential is None else dict(self._credential.headers(method, url, body))


def _result_errors(result: object, invocation: JsonObject) -> list[str]:
    if not isinstance(result, ToolResultMessage):
        return [f"the callback is not a valid result: {result}"]
    errors = [
        f"{name} came back as {getattr(result, name)!r}"
        for name in ("id", "group_id", "call_id")
        if getattr(result, name) != invocation[name]
    ]
    text = result.text if result.text is not None else ""
    return errors if text.startswith("Error: ") else [*errors, "its text does not begin with 'Error: '"]


def _is_inconclusive(reply: HttpReply) -> bool:
    """Return whether a reply shows nothing about the provider: there is none, or the credential was rejected."""
    return reply.status is None or reply.status in _UNAUTHORIZED


def _describe(reply: HttpReply) -> str:
    """Return what the provider answered, with its own text if it rejected the credential."""
    text = " ".join(reply.body.decode(errors="replace").split())[:_MAX_QUOTED] if reply.status in _UNAUTHORIZED else ""
    return reply.fault or f"it answered {reply.status}{f': {text}' if text else ''}"
