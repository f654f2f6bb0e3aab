"""The request of one call: its URL, headers and body, from the arguments and the settings."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote

from agenttool.adapters.openapi.body import encode_body
from agenttool.adapters.openapi.declare import PAGES, OperationTool
from agenttool.adapters.openapi.document import DocumentError, object_of
from agenttool.adapters.openapi.http import HttpRequest
from agenttool.adapters.openapi.operations import is_json
from agenttool.adapters.openapi.parameters import ArgumentError, cookie_pairs, header_text, path_text, query_of
from agenttool.adapters.openapi.security import RequestCredentials
from agenttool.adapters.openapi.settings import OpenApiService
from agenttool.adapters.source_settings import fill_credentials
from agenttool.records import JsonObject


def build_request(
    service: OpenApiService,
    tool: OperationTool,
    arguments: JsonObject,
    credentials: RequestCredentials,
    values: Mapping[str, str],
) -> HttpRequest:
    """Return the request of a call. Only arguments that were given are sent.

    Args:
        service: the settings.
        tool: the operation.
        arguments: the input of the call.
        credentials: what security adds.
        values: the values of the credentials that headers and the query of the settings refer to.

    Raises:
        ArgumentError: an argument cannot be sent.
        DocumentError: a credential or a header of the settings cannot be sent.
    """
    operation = tool.operation
    path, query, headers, cookies = operation.path, list[str](), dict[str, str](), list[str]()
    given = [(each, arguments[name]) for name, each in tool.parameters.items() if name in arguments]
    for parameter, value in (*tool.fixed, *given):
        if parameter.where == "path":
            path = path.replace(f"{{{parameter.name}}}", path_text(parameter, value))
        elif value is None:
            continue
        elif parameter.where == "header":
            headers[parameter.name] = header_text(parameter, value)
        elif parameter.where == "cookie":
            cookies += cookie_pairs(parameter, value)
        else:
            query += query_of(parameter, value)
    fixed_query = [
        f"{quote(name, safe='')}={quote(fill_credentials(text, values), safe='')}"
        for name, text in service.query.items()
    ]
    _refuse_same_names(query, (*fixed_query, *credentials.query))
    _refuse_same_names(cookies, credentials.cookies)
    fixed = {name: fill_credentials(text, values) for name, text in service.headers.items()} | credentials.headers
    content_type, body = _body(tool, arguments)
    for name, text in fixed.items():
        if not text.isascii() or not text.isprintable():
            reason = "has characters that a header cannot carry, such as a line break"
            raise DocumentError(f"the value of the header {name} from the settings {reason}; correct its credential")
    sent = {
        "Accept": _accepted(operation.responses),
        **({"Content-Type": content_type} if content_type is not None else {}),
        **({"Cookie": "; ".join((*cookies, *credentials.cookies))} if cookies or credentials.cookies else {}),
    }
    for each in (headers, fixed):  # later ones replace earlier ones, however their names are written
        lowered = {name.lower() for name in each}
        sent = {**{name: text for name, text in sent.items() if name.lower() not in lowered}, **each}
    url = _url_below(tool.base_url, path, (*query, *fixed_query, *credentials.query))
    secrets = (*credentials.secrets, *values.values())
    return HttpRequest(method=operation.method, url=url, headers=sent, body=body, secrets=secrets)


def _url_below(base: str, path: str, query: Iterable[str]) -> str:
    """Return a URL below a base URL; no path of a document can change the host."""
    below, _, own = path.partition("#")[0].partition("?")
    parts = "&".join((*((own,) if own else ()), *query))
    return f"{base}/{below.removeprefix('/')}" + (f"?{parts}" if parts else "")


def _refuse_same_names(pairs: Iterable[str], fixed: Iterable[str]) -> None:
    """Reject arguments with the name of a parameter that the settings or a credential supply."""
    taken = {_name(each) for each in fixed}
    for each in pairs:
        if _name(each) in taken:
            raise ArgumentError(f"{_name(each)} is set by the settings; leave it out")


def _name(pair: str) -> str:
    return unquote(pair.partition("=")[0]).lower()


def _body(tool: OperationTool, arguments: JsonObject) -> tuple[str | None, bytes | None]:
    body = tool.operation.body
    if body is None:
        return None, None
    if tool.members is None:
        if tool.body_argument not in arguments:
            return None, None
        return encode_body(body, arguments[tool.body_argument])
    members: JsonObject = {member: arguments[name] for name, member in tool.members.items() if name in arguments}
    if not members and not body.is_required:
        return None, None
    return encode_body(body, members)


def _accepted(responses: Mapping[str, JsonObject]) -> str:
    """Return the media types that a successful response may have, JSON first."""
    found: list[str] = []
    for status, response in responses.items():
        if status.startswith("2") or status == "default":
            found += object_of(response.get("content"))
    kinds = sorted(dict.fromkeys(found), key=lambda each: not is_json(each))
    return ", ".join(kinds[:4]) or "application/json, */*;q=0.5"


def arguments_of(tool: OperationTool, arguments: JsonObject) -> tuple[JsonObject, int]:
    """Return the arguments of the request, and how many pages to fetch."""
    if not tool.is_paged:
        return arguments, 1
    pages = arguments.get(PAGES)
    rest: JsonObject = {name: value for name, value in arguments.items() if name != PAGES}
    return rest, int(pages) if isinstance(pages, int | float) else 1
