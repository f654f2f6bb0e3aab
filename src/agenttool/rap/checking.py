"""A look at a provider from outside, in whatever language it is written: does it do what runtimes count on?

Nothing is asked for that a tool would do: operations that are not there, arguments that fit no schema, notices about
threads and calls that nobody knows.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agenttool.adapters.rap.courier import Courier, Reply
from agenttool.adapters.rap.credentials import Credential, origin_of
from agenttool.adapters.rap.desk import Desk
from agenttool.adapters.rap.forgery import Reach
from agenttool.adapters.rap.wire import Manifest, ToolResultMessage, read_manifest
from agenttool.codec import json_bytes
from agenttool.errors import ConfigError, RecordError
from agenttool.rap.display import check_script
from agenttool.records import JsonObject

WITHIN_S = 10.0
"""So long an error may take that needs no work."""

_GRACE_S = 0.5
_BAD, _WRONG_TYPE = 400, 415
_KNOWS_US_NOT = (401, 403)
_MOST_SAID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One promise, and whether it was kept.

    Attributes:
        rules: the rows of the protocol's ledger that it stands for.
        is_kept: none if it could not be looked at.
        told: what was seen instead, or why nothing was.
    """

    rules: tuple[str, ...]
    promise: str
    is_kept: bool | None
    told: str = ""


@asynccontextmanager
async def looking_at(url: str, credential: Credential | None = None) -> AsyncGenerator["Look"]:
    """Look at the provider whose base URL this is; results are received on this machine.

    Raises:
        ConfigError: it is no URL.
    """
    try:
        host = origin_of(url)[1]
    except ConfigError:
        host = ""
    if not host:
        raise ConfigError(f"a provider is named by its base URL, such as 'https://gh.example', got {url!r}; correct it")
    courier, desk = Courier(Reach.of([host])), Desk()
    desk.open()
    try:
        yield Look(url.rstrip("/"), credential, courier, desk)
    finally:
        await desk.close()
        await courier.close()


class Look:
    """One look at one provider."""

    def __init__(self, base: str, credential: Credential | None, courier: Courier, desk: Desk) -> None:
        """Take where it is, what to show, and how to reach it and be reached."""
        self._base = base
        self._credential = credential
        self._courier = courier
        self._desk = desk
        self._thread = f"check-{secrets.token_hex(6)}"

    async def findings(self) -> list[Finding]:
        """Look at everything; without a manifest there is nothing more to look at."""
        manifest, found = await self._discovered()
        if manifest is None:
            return found
        found += self._of_scripts(manifest)
        found += await self._of_errors(manifest)
        found += await self._of_refusals(manifest)
        return found + await self._of_notices()

    async def _discovered(self) -> tuple[Manifest | None, list[Finding]]:
        url, promise = f"{self._base}/.well-known/rap-toolset", "serves a manifest that is valid as a whole"
        rules = ("RAP-140", "RAP-146", "RAP-147", "RAP-148", "RAP-149", "RAP-151")
        reply = await self._courier.get(url, self._shown("GET", url))
        try:
            manifest, told = (read_manifest(reply.body), "") if reply.is_accepted else (None, _seen(reply))
        except RecordError as error:
            manifest, told = None, str(error)
        is_kept = None if _is_unheard(reply) else manifest is not None
        return manifest, [Finding(rules=rules, promise=promise, is_kept=is_kept, told=told)]

    def _of_scripts(self, manifest: Manifest) -> list[Finding]:
        """Hold scripts to what is sure; of others nobody can say without running them."""
        found: list[Finding] = []
        for tool in manifest.tools:
            if isinstance(tool.display_script, str):
                is_kept, told = True, ""
                try:
                    check_script(tool.display_script, tool.input_schema)
                except ConfigError as error:
                    is_kept, told = None, str(error)
                promise = f"shows calls of {tool.name!r} by a text"
                found.append(Finding(rules=("RAP-166",), promise=promise, is_kept=is_kept, told=told))
        return found

    async def _of_errors(self, manifest: Manifest) -> list[Finding]:
        unknown = self._invocation("no_such_operation", {}, call_id="")
        misfit = self._invocation(manifest.tools[0].name, [], call_id="echo me")
        found = [
            await self._answered(manifest, unknown, ("RAP-040", "RAP-045", "RAP-047"), "an operation that it has not"),
            await self._answered(manifest, misfit, ("RAP-040", "RAP-046", "RAP-047"), "arguments that are no object"),
        ]
        repeated = await self._post(manifest.endpoint, json_bytes(unknown))
        await asyncio.sleep(_GRACE_S)
        count = len(self._desk.about(str(unknown["id"])))
        is_kept = (repeated.is_accepted and count == 1) if found[0].is_kept else None
        told = "" if is_kept else f"{_seen(repeated)}, and {count} results came"
        rules = ("RAP-402",)
        return [*found, Finding(rules=rules, promise="takes a repeated call once", is_kept=is_kept, told=told)]

    async def _answered(
        self, manifest: Manifest, invocation: JsonObject, rules: tuple[str, ...], about: str
    ) -> Finding:
        """Expect an acknowledgement, and then an error that names the call as it was named."""
        promise = f"acknowledges {about}, and says so in a result"
        reply = await self._post(manifest.endpoint, json_bytes(invocation))
        if not reply.is_accepted:
            told = f"{_seen(reply)}; if it posts to public addresses only, have it allow 127.0.0.1 for this"
            return Finding(rules=rules, promise=promise, is_kept=None, told=told)
        result = await self._desk.first(str(invocation["id"]), WITHIN_S)
        flaws = ["no result came"] if result is None else _flaws(result, invocation)
        return Finding(rules=(*rules, *_ECHOED), promise=promise, is_kept=not flaws, told="; ".join(flaws))

    async def _of_refusals(self, manifest: Manifest) -> list[Finding]:
        async def refused(body: bytes, kind: str, status: int, what: str, rule: str) -> Finding:
            reply = await self._post(manifest.endpoint, body, kind)
            is_kept = None if _is_unheard(reply) else reply.status == status
            return Finding(
                rules=(rule,), promise=f"refuses {what}", is_kept=is_kept, told="" if is_kept else _seen(reply)
            )

        no_address = json_bytes({"operation": "x", "arguments": {}})
        form = json_bytes(self._invocation("no_such_operation", {}))
        return [
            await refused(b"[]", "application/json", _BAD, "what is no object", "RAP-343"),
            await refused(no_address, "application/json", _BAD, "a call that cannot be answered", "RAP-407"),
            await refused(form, "text/plain", _WRONG_TYPE, "what is not labeled as JSON", "RAP-411"),
        ]

    async def _of_notices(self) -> list[Finding]:
        found: list[Finding] = []
        for path, rule in (("/cancel_tool_call", "RAP-286"), ("/close_thread", "RAP-303")):
            notice: JsonObject = {"thread_id": f"{self._thread}/../..", "tool_call_id": "nobody"}
            reply = await self._post(self._base + path, json_bytes(notice))
            is_kept = None if _is_unheard(reply) else reply.is_accepted
            promise = f"takes {path} for what it does not know"
            found.append(Finding(rules=(rule,), promise=promise, is_kept=is_kept, told="" if is_kept else _seen(reply)))
        return found

    def _invocation(self, operation: str, arguments: JsonObject | list[object], **members: str) -> JsonObject:
        name = f"check-{secrets.token_hex(6)}"
        where = f"{self._desk.url}/{secrets.token_urlsafe(16)}?check={name}"
        plain = {"operation": operation, "arguments": arguments, "id": name, "group_id": self._thread}
        return {**plain, "callback_url": where, **members}  # pyright: ignore[reportReturnType] -- one of them is wrong on purpose

    async def _post(self, url: str, body: bytes, kind: str = "application/json") -> Reply:
        return await self._courier.post(url, body, {**self._shown("POST", url, body), "Content-Type": kind})

    def _shown(self, method: str, url: str, body: bytes = b"") -> dict[str, str]:
        return {} if self._credential is None else dict(self._credential.headers(method, url, body))


_ECHOED = ("RAP-003", "RAP-006", "RAP-070", "RAP-071", "RAP-084")


def _flaws(result: object, invocation: JsonObject) -> list[str]:
    if not isinstance(result, ToolResultMessage):
        return [f"what came is no valid result: {result}"]
    flaws = [
        f"{name} came back as {getattr(result, name)!r}"
        for name in ("id", "group_id", "call_id")
        if getattr(result, name) != invocation[name]
    ]
    text = result.text if result.text is not None else ""
    return flaws if text.startswith("Error: ") else [*flaws, "its text does not begin with 'Error: '"]


def _is_unheard(reply: Reply) -> bool:
    """Tell whether nothing can be said of a server: nobody answered, or it does not let us in."""
    return reply.status is None or reply.status in _KNOWS_US_NOT


def _seen(reply: Reply) -> str:
    """Say what came instead, in the server's own words where it says why it knows nobody of us."""
    said = " ".join(reply.body.decode(errors="replace").split())[:_MOST_SAID] if reply.status in _KNOWS_US_NOT else ""
    return reply.fault or f"it answered {reply.status}{f': {said}' if said else ''}"
