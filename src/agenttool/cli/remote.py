"""Commands against a server: `--url` or `AGENTTOOL_URL` names it, and the key comes from the environment or a file."""

import os
import shlex
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, cast

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from agenttool.cli.format import indented_json, print_json, print_result, short_id
from agenttool.cli.options import KEY, KEY_FILE, MAX_PAGE
from agenttool.cli.output import escape_markup, plain_table, print_error, print_text
from agenttool.client import Client, json_value, result_of
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.config import environment
from agenttool.config.program import program_name
from agenttool.errors import ConfigError, GatewayError
from agenttool.history.printable import printable
from agenttool.records import Json, JsonObject, ResultStatus, ToolResult, ToolSearchResult
from agenttool.server.messages import Approval, CallDetail, CallSummary, ToolSummary, TryReply

CANCEL_TIMEOUT_S = 15.0
SHOWN_DIGITS = 6
CALL_PREFIX, ID_DIGITS = "inv_", 32
_POLL_S = 2.0
_NOT_FOUND, _FIRST_FAULT = 404, 500


def read_key() -> str | None:
    """Return the key of the environment, or of the file that it names.

    Raises:
        ConfigError: the file cannot be read, or other users can read it.
    """
    found = environment([KEY, KEY_FILE])
    if key := found.get(KEY):
        return key.strip()
    if not (name := found.get(KEY_FILE)):
        return None
    try:
        with Path(name).expanduser().open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise ConfigError(
                    f"other users can use the key file {name!r} (mode {mode:04o}); run: chmod 600 {shlex.quote(name)}"
                )
            return file.read(1000).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"the key file {name!r} cannot be read: {error.strerror}; correct {KEY_FILE}") from error


def _open(url: str) -> Client:
    return Client(url, key=read_key())


def call_tool(
    url: str, name: str, arguments: Callable[[JsonObject], JsonObject], idempotency_key: str | None
) -> tuple[str, ToolResult | None]:
    """Make a call, and wait for its end or for a question; return its id, and its result if it ended.

    If the server stops answering, the command that continues with the call is printed.

    Raises:
        GatewayError: the server refused the call, or did not answer.
    """
    with _open(url) as gateway:
        schema: JsonObject = {}
        try:
            schema = cast("JsonObject", json_value(gateway.tool(name).input_schema))
        except GatewayError as error:
            if error.status != _NOT_FOUND:  # the call itself explains best what is wrong with the name
                raise
        try:
            call = gateway.start(name, arguments(schema), idempotency_key=idempotency_key, wait_s=_POLL_S)
            while (result := result_of(call)) is None and call.approval_id is None:
                call = gateway.get(call.invocation_id, wait_s=_POLL_S)
        except GatewayError as error:
            if error.status is None or error.status >= _FIRST_FAULT:
                _print_remedy(url, error)
            raise
        return call.invocation_id, result


def _print_remedy(url: str, error: GatewayError) -> None:
    """Print how to continue with a call whose outcome is not known."""
    if error.invocation_id is not None:
        words = f"read it later: {program_name()} show {error.invocation_id} --url {shlex.quote(url)}"
    else:
        words = f"repeat the command with --idempotency-key {shlex.quote(error.idempotency_key or '')}"
    print_text(Console(stderr=True), words, "dim")


def print_tools(url: str, why: str | None, *, as_json: bool) -> None:
    """Print the tools of a server, or why a model does not see one."""
    with _open(url) as gateway:
        found = [gateway.tool(why)] if why is not None else _all_tools(gateway)
    if as_json:
        for each in found:
            print_struct(each)
    elif why is not None:
        typer.echo(printable(f"{found[0].name} is {found[0].state}: {found[0].why}"))
    else:
        rows = ((each.name, each.state, each.description.split("\n")[0]) for each in found)
        Console().print(plain_table("tool", "state", "description", rows=map(_escaped, rows)))


def _all_tools(gateway: Client) -> list[ToolSummary]:
    page = gateway.tools(limit=MAX_PAGE)
    found = page.items
    while page.next_cursor is not None:
        page = gateway.tools(limit=MAX_PAGE, cursor=page.next_cursor)
        found += page.items
    return found


def try_policy(
    url: str,
    name: str,
    arguments: Callable[[JsonObject], JsonObject],
    actor: str | None,
    roles: Sequence[str] | None,
) -> TryReply:
    """Return what the rules of a server would decide about a call."""
    with _open(url) as gateway:
        schema = cast("JsonObject", json_value(gateway.tool(name).input_schema))
        return gateway.try_policy(name, arguments(schema), actor=actor, roles=roles)


def search_tools(url: str, query: str, limit: int) -> ToolSearchResult:
    """Return the tools of a server that a search finds."""
    with _open(url) as gateway:
        return gateway.search(query, limit=limit)


def print_approvals(url: str, tool: str | None, limit: int, *, as_json: bool) -> None:
    """Print the calls that wait for an answer, the oldest first."""
    with _open(url) as gateway:
        page = gateway.approvals(tool=tool, limit=limit)
    for each in page.items:
        print_struct(each) if as_json else _print_approval(Console(), each, url)
    if not page.items and not as_json:
        print_text(Console(stderr=True), "no call waits for an answer", "dim")


def answer_approval(  # noqa: PLR0913 -- the parts of an answer
    url: str,
    approval_id: str,
    answer: Literal["allow", "deny"],
    *,
    shown: str | None,
    message: str | None,
    edited: JsonObject | None,
    suggestion: int | None,
    scope: str,
) -> JsonObject | None:
    """Answer a question as it was shown; return who answered, or None if it was shown otherwise, which is printed.

    Raises:
        ConfigError: the rule to remember is not one of those suggested, or cannot be added there.
        GatewayError: the server refuses the answer.
    """
    if scope not in ("store", "session"):
        raise ConfigError(f"a server does not add rules to {scope!r}; use --save store or --save session")
    with _open(url) as gateway:
        is_whole = approval_id.startswith("apr_") and "-" in approval_id
        asked = [] if is_whole else _all_approvals(gateway)
        ids = [each.approval_id for each in asked if _is_like(each.approval_id, approval_id)]
        approval = gateway.approval(_one_id(approval_id, ids))
        digits, mark = approval.shown_digest.partition(":")[2], (shown or "").rpartition(":")[2]
        if len(mark) < SHOWN_DIGITS or not digits.startswith(mark):
            found = "an answer needs the digest of what you saw" if shown is None else f"you saw another one: {shown!r}"
            print_error(
                "not_shown", f"{approval_id}: {found}; read it again, then answer with --shown {_mark(approval)}"
            )
            return None
        rule = None if suggestion is None else _suggested(approval, suggestion)
        done = gateway.decide(approval, answer, input=edited, message=message, remember=rule, scope=scope)
        return cast("JsonObject", msgspec.to_builtins(done))


def _all_approvals(gateway: Client) -> list[Approval]:
    page = gateway.approvals(limit=MAX_PAGE)
    found = [*page.items]
    while page.next_cursor is not None:
        page = gateway.approvals(limit=MAX_PAGE, cursor=page.next_cursor)
        found += page.items
    return found


def _suggested(approval: Approval, number: int) -> JsonObject:
    if not 1 <= number <= len(approval.suggested_updates):
        raise ConfigError(f"there is no suggested rule {number}; there are {len(approval.suggested_updates)}")
    update = cast("JsonObject", json_value(approval.suggested_updates[number - 1]))
    return cast("JsonObject", update["rule"])


def _mark(approval: Approval) -> str:
    return approval.shown_digest.partition(":")[2][:12]


def _print_approval(console: Console, approval: Approval, url: str) -> None:
    actor = f" for {approval.actor}" if approval.actor else ""
    console.print(Text(printable(approval.tool_name), style="bold"), Text(printable(f"needs approval{actor}:")))
    console.print(indented_json(json_value(approval.input)), soft_wrap=True)
    console.print(Text(printable(f"Reason: {approval.reason.rstrip('.')}. Expires {approval.expires_at}.")))
    if approval.why_not:
        console.print(Text(printable(f"You cannot answer: {approval.why_not}"), style="yellow"))
    words = f"answer {approval.approval_id} allow --shown {_mark(approval)} --url {shlex.quote(url)}"
    console.print(Text(f"{program_name()} approvals {words}", style="dim"), soft_wrap=True)


def print_calls(url: str, limit: int, *, as_json: bool, is_open: bool, **filters: str | None) -> None:
    """Print the newest calls, the newest last."""
    with _open(url) as gateway:
        page = gateway.calls(limit=limit, is_open=is_open, **filters)
    if as_json:
        for each in reversed(page.items):
            print_struct(each)
    elif page.items:
        columns = ("time", "id", "tool", "status", "seconds", "actor", "summary")
        Console().print(plain_table(*columns, rows=map(_call_row, reversed(page.items))))
    else:
        print_text(Console(stderr=True), "no call matches", "dim")


def _call_row(call: CallSummary) -> tuple[str, ...]:
    words = (call.began[:19], short_id(call.invocation_id), call.tool, call.status, f"{call.duration_s:.3f}")
    return _escaped((*words, call.actor or "", call.summary or call.error_class or ""))


def get_call(url: str, part: str | None) -> CallDetail:
    """Return everything that is recorded of a call, by its id or a part of it; by default of the newest call."""
    with _open(url) as gateway:
        return gateway.get(_call_id(gateway, part))


def _call_id(gateway: Client, part: str | None) -> str:
    """Return the id of the one call that a part of an id names; without a part, that of the newest call."""
    if part is not None and len(part) == len(CALL_PREFIX) + ID_DIGITS:
        return part
    listed = gateway.calls(id_part=part, limit=MAX_PAGE).items
    if part is not None:
        return _one_id(part, [each.invocation_id for each in listed])
    if not listed:
        raise ConfigError("the server has no call that you may see; make one first")
    return max(listed, key=lambda each: each.began).invocation_id


def _is_like(whole_id: str, part: str) -> bool:
    return whole_id.endswith(part) or whole_id.startswith(part) or whole_id[4:].startswith(part)


def _one_id(part: str, found: list[str]) -> str:
    """Return the only id that was found for a part of one; the part itself if there is none, which the server refuses.

    Raises:
        ConfigError: there are several.
    """
    if len(found) > 1:
        listed = "\n".join(f"  {each}" for each in found)
        raise ConfigError(f"several ids are like {part!r}; write more of it:\n{listed}")
    return found[0] if found else part


def print_status(url: str, *, as_json: bool) -> None:
    """Print whether a server is healthy, and what is waiting there."""
    with _open(url) as gateway:
        found = gateway.status()
    if as_json:
        print_json(found)
        return
    rows = ((name, _cell(value)) for name, value in found.items())
    Console().print(plain_table("member", "value", rows=map(_escaped, rows)))


def _cell(value: Json) -> str:
    """Return a member of the status as text: a list with one entry on each line."""
    if isinstance(value, list):
        return "\n".join(each if isinstance(each, str) else json_bytes(each).decode() for each in value) or "none"
    return value if isinstance(value, str) else "none" if value is None else json_bytes(value).decode()


def cancel_call(url: str, invocation_id: str, *, as_json: bool) -> bool:
    """Cancel a call, print its result, and return whether it was canceled."""
    try:
        with _open(url) as gateway:
            whole_id = _call_id(gateway, invocation_id)
            gateway.cancel(whole_id)
            result = gateway.wait(whole_id, timeout_s=CANCEL_TIMEOUT_S)
    except TimeoutError as error:
        print_error("not_canceled", str(error))
        return False
    print_json(to_json(result)) if as_json else print_result(result)
    if result.status is ResultStatus.CANCELED:
        return True
    print_error("not_canceled", f"{invocation_id}: it ended otherwise ({result.status.value})")
    return False


def _escaped(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(escape_markup(printable(each)) for each in words)


def print_struct(found: msgspec.Struct) -> None:
    """Print a message of a server as JSON."""
    print_json(parse_object(msgspec.json.encode(found)))
