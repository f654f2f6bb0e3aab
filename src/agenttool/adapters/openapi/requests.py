"""The request of one call: its URL, headers and body, from the arguments and the settings."""

from collections.abc import Mapping
from urllib.parse import quote

from agenttool.adapters.openapi.body import encode_body
from agenttool.adapters.openapi.declare import BODY, PAGES, OperationTool
from agenttool.adapters.openapi.http import HttpRequest
from agenttool.adapters.openapi.operations import ApiParameter, is_json
from agenttool.adapters.openapi.parameters import cookie_pairs, header_text, path_text, query_of
from agenttool.adapters.openapi.security import Carried
from agenttool.adapters.openapi.settings import OpenApiService
from agenttool.adapters.source_settings import credentials_in, fill_credentials
from agenttool.records import Json, JsonObject

_ANY = "*/*"


def build_request(
    service: OpenApiService, tool: OperationTool, arguments: JsonObject, carried: Carried, values: Mapping[str, str]
) -> HttpRequest:
    """Return the request of a call. Only arguments that were given are sent.

    Args:
        service: the settings.
        tool: the operation.
        arguments: the input of the call.
        carried: what security adds.
        values: the values of the credentials that headers and the query of the settings refer to.

    Raises:
        ArgumentError: an argument cannot be sent.
    """
    operation = tool.operation
    path, query, headers, cookies = operation.path, list[str](), dict[str, str](), list[str]()
    given = [(each, arguments[name]) for name, each in tool.parameters.items() if name in arguments]
    for parameter, value in (*tool.fixed, *given):
        if parameter.where == "path":
            path = path.replace(f"{{{parameter.name}}}", path_text(parameter, value))
        elif value is not None:
            _place(parameter, value, query, headers, cookies)
    for name, text in service.query.items():
        query.append(f"{quote(name, safe='')}={quote(fill_credentials(text, values), safe='')}")
    fixed = {name: fill_credentials(text, values) for name, text in service.headers.items()}
    secret = {name for name, text in service.headers.items() if credentials_in(text)} | {*carried.headers, "Cookie"}
    cookies += carried.cookies
    content_type, body = _body(tool, arguments)
    sent = {
        "Accept": _accepted(operation.responses),
        **({"Content-Type": content_type} if content_type is not None else {}),
        **headers,
        **fixed,
        **carried.headers,
        **({"Cookie": "; ".join(cookies)} if cookies else {}),
    }
    parts = "&".join((*query, *carried.query))
    url = tool.base_url + path + (f"?{parts}" if parts else "")
    return HttpRequest(
        method=operation.method, url=url, headers=sent, body=body, secret_headers=frozenset(secret | {"Authorization"})
    )


def _place(parameter: ApiParameter, value: Json, query: list[str], headers: dict[str, str], cookies: list[str]) -> None:
    if parameter.where in ("query", "querystring"):
        query += query_of(parameter, value)
    elif parameter.where == "header":
        headers[parameter.name] = header_text(parameter, value)
    else:
        cookies += cookie_pairs(parameter, value)


def _body(tool: OperationTool, arguments: JsonObject) -> tuple[str | None, bytes | None]:
    body = tool.operation.body
    if body is None:
        return None, None
    if tool.members is None:
        name = next(each for each in (BODY, f"{BODY}_json") if each not in tool.parameters)
        if name not in arguments:
            return None, None
        return encode_body(body, arguments[name])
    members: JsonObject = {member: arguments[name] for name, member in tool.members.items() if name in arguments}
    if not members and not body.is_required:
        return None, None
    return encode_body(body, members)


def _accepted(responses: JsonObject) -> str:
    """Return the media types that a successful response may have, JSON first."""
    found: list[str] = []
    for status, response in responses.items():
        content = response.get("content") if isinstance(response, dict) else None
        if status.startswith("2") or status == "default":
            found += content if isinstance(content, dict) else ()
    kinds = sorted(dict.fromkeys(found), key=lambda each: not is_json(each))
    if not kinds:
        return f"application/json, {_ANY};q=0.5"
    return ", ".join(kinds[:4])


def arguments_of(tool: OperationTool, arguments: JsonObject) -> tuple[JsonObject, int]:
    """Return the arguments of the request, and how many pages to fetch."""
    pages = arguments.get(PAGES) if tool.is_paged else None
    rest: JsonObject = {name: value for name, value in arguments.items() if not (tool.is_paged and name == PAGES)}
    return rest, int(pages) if isinstance(pages, int | float) else 1
