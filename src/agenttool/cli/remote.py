"""Commands against a server: `--url` or `AGENTTOOL_URL` names it, and the key comes from the environment or a file."""

import os
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar, cast

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from agenttool.cli.format import print_json, print_rows, short_id
from agenttool.cli.options import KEY, KEY_FILE, MAX_PAGE
from agenttool.cli.output import escape_markup, hint, plain_table, print_blocks, print_error
from agenttool.cli.prompt import print_question, shown_mark, unseen_text, was_shown
from agenttool.client import Client, json_value, result_of
from agenttool.codec import json_bytes, parse_object
from agenttool.config import environment
from agenttool.config.program import program_name
from agenttool.errors import ConfigError, GatewayError
from agenttool.history.printable import printable
from agenttool.policy.approvals import Answer, Deny, Edit
from agenttool.records import Json, JsonObject, ToolResult
from agenttool.server.messages import Approval, CallSummary, ToolSummary

_POLL_S = 2.0
_NOT_FOUND, _FIRST_FAULT = 404, 500
_Item = TypeVar("_Item")


def open_server(url: str) -> Client:
    """Return a client of a server, with the key of the environment."""
    return Client(url, key=_read_key())


def _read_key() -> str | None:
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


class _Page(Protocol[_Item]):
    @property
    def items(self) -> list[_Item]: ...
    @property
    def next_cursor(self) -> str | None: ...


def _all_items(read: Callable[[str | None], _Page[_Item]]) -> Iterator[_Item]:
    """Yield the items of all pages; `read` takes the cursor of a page."""
    page = read(None)
    yield from page.items
    while page.next_cursor is not None:
        page = read(page.next_cursor)
        yield from page.items


def server_schema(gateway: Client, tool: str) -> JsonObject:
    """Return the input schema of a tool."""
    return cast("JsonObject", json_value(gateway.tool(tool).input_schema))


def call_tool(
    url: str, name: str, arguments: Callable[[JsonObject], JsonObject], idempotency_key: str | None
) -> tuple[str, ToolResult | None]:
    """Make a call, and wait for its end or for a question; return its id, and its result if it ended.

    If the server stops answering, the command that continues with the call is printed.

    Raises:
        GatewayError: the server refused the call, or did not answer.
    """
    with open_server(url) as gateway:
        schema: JsonObject = {}
        try:
            schema = server_schema(gateway, name)
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
        hint(f"read it later: {program_name()} show {error.invocation_id} --url {shlex.quote(url)}")
    else:
        hint(f"repeat the command with --idempotency-key {shlex.quote(error.idempotency_key or '')}")


def print_tools(url: str, why: str | None, *, as_json: bool) -> None:
    """Print the tools of a server, or why a model does not see one."""
    with open_server(url) as gateway:
        pages = _all_items(lambda cursor: gateway.tools(limit=MAX_PAGE, cursor=cursor))
        found: list[ToolSummary] = [gateway.tool(why)] if why is not None else list(pages)
    if why is not None and not as_json:
        typer.echo(printable(f"{found[0].name} is {found[0].state}: {found[0].why}"))
        return
    rows = ((each.name, each.state, each.description.split("\n")[0]) for each in found)
    table = plain_table("tool", "state", "description", rows=map(_escaped, rows))
    print_rows([*map(document_of, found)], [table], as_json=as_json, empty="the server has no tools")


def print_approvals(url: str, tool: str | None, limit: int, *, as_json: bool) -> None:
    """Print the calls that wait for an answer, the oldest first."""
    with open_server(url) as gateway:
        items = gateway.approvals(tool=tool, limit=limit).items
    for each in items:
        print_json(document_of(each)) if as_json else _print_approval(Console(), each, url)
    if not items and not as_json:
        hint("no call waits for an answer")


def _print_approval(console: Console, approval: Approval, url: str) -> None:
    print_question(console, document_of(approval))
    if approval.why_not:
        console.print(Text(printable(f"You cannot answer: {approval.why_not}"), style="yellow"))
    words = f"answer {approval.approval_id} allow --shown {shown_mark(approval.shown_digest)} --url {shlex.quote(url)}"
    console.print(Text(f"{program_name()} approvals {words}", style="dim"), soft_wrap=True)


def answer_approval(  # noqa: PLR0913 -- the parts of an answer
    url: str, part: str, answer: Answer, *, shown: str | None, message: str | None, suggestion: int | None, scope: str
) -> JsonObject | None:
    """Answer a question as it was shown; return who answered, or None if it was shown otherwise, which is printed.

    Raises:
        ConfigError: the rule to remember is not one of those suggested, or cannot be added there.
        GatewayError: the server refuses the answer.
    """
    if scope not in ("store", "session"):
        raise ConfigError(f"a server does not add rules to {scope!r}; use --save store or --save session")
    with open_server(url) as gateway:
        is_whole = part.startswith("apr_") and "-" in part
        pages = _all_items(lambda cursor: gateway.approvals(limit=MAX_PAGE, cursor=cursor))
        ids = [] if is_whole else [each.approval_id for each in pages if _is_like(each.approval_id, part)]
        approval = gateway.approval(_one_id(part, ids))
        if not was_shown(approval.shown_digest, shown):
            print_error("not_shown", f"{part}: {unseen_text(approval.shown_digest, shown)}")
            return None
        done = gateway.decide(
            approval,
            "deny" if isinstance(answer, Deny) else "allow",
            input=cast("JsonObject", answer.input) if isinstance(answer, Edit) else None,
            message=message,
            remember=None if suggestion is None else _suggested_rule(approval, suggestion),
            scope=scope,
        )
        return document_of(done)


def _suggested_rule(approval: Approval, number: int) -> JsonObject:
    if not 1 <= number <= len(approval.suggested_updates):
        raise ConfigError(f"there is no suggested rule {number}; there are {len(approval.suggested_updates)}")
    update = cast("JsonObject", json_value(approval.suggested_updates[number - 1]))
    return cast("JsonObject", update["rule"])


def print_calls(url: str, limit: int, *, as_json: bool, is_open: bool, **filters: str | None) -> None:
    """Print the newest calls, the newest last."""
    with open_server(url) as gateway:
        items = gateway.calls(limit=limit, is_open=is_open, **filters).items[::-1]
    columns = ("time", "id", "tool", "status", "seconds", "actor", "summary")
    table = plain_table(*columns, rows=map(_call_row, items))
    print_rows([*map(document_of, items)], [table], as_json=as_json, empty="no call matches")


def _call_row(call: CallSummary) -> tuple[str, ...]:
    words = (call.began[:19], short_id(call.invocation_id), call.tool, call.status, f"{call.duration_s:.3f}")
    return _escaped((*words, call.actor or "", call.summary or call.error_class or ""))


def find_call_id(gateway: Client, part: str | None) -> str:
    """Return the id of the only call whose id begins or ends with a text; without a text, that of the newest call.

    Raises:
        ConfigError: there is no call, or the part names several.
    """
    listed = gateway.calls(id_part=part, limit=MAX_PAGE).items
    if part is not None:
        return _one_id(part, [each.invocation_id for each in listed])
    if not listed:
        raise ConfigError("the server has no call that you may see; make one first")
    return max(listed, key=lambda each: each.began).invocation_id


def _is_like(whole_id: str, part: str) -> bool:
    return whole_id.endswith(part) or whole_id.startswith(part) or whole_id[4:].startswith(part)


def _one_id(part: str, found: list[str]) -> str:
    """Return the only id that was found for a part of an id; the part itself if none was, which the server rejects.

    Raises:
        ConfigError: there are several.
    """
    if len(found) > 1:
        listed = "\n".join(f"  {each}" for each in found)
        raise ConfigError(f"several ids are like {part!r}; write more of it:\n{listed}")
    return found[0] if found else part


def print_status(url: str, *, as_json: bool) -> None:
    """Print whether a server is healthy, and what is waiting there."""
    with open_server(url) as gateway:
        found = gateway.status()
    if as_json:
        print_json(found)
    else:
        rows = ((name, _cell(value)) for name, value in found.items())
        print_blocks([plain_table("member", "value", rows=map(_escaped, rows))])


def _cell(value: Json) -> str:
    """Return a member of the status as text: a list with one entry on each line."""
    if isinstance(value, list):
        return "\n".join(each if isinstance(each, str) else json_bytes(each).decode() for each in value) or "none"
    return value if isinstance(value, str) else "none" if value is None else json_bytes(value).decode()


def _escaped(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(escape_markup, words))


def document_of(message: msgspec.Struct) -> JsonObject:
    """Return a message of a server as JSON."""
    return parse_object(msgspec.json.encode(message))
