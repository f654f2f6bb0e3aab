"""The settings of one OpenAPI service; importing them loads no network code."""

import re
from pathlib import Path
from typing import Annotated, Literal

from agenttool.adapters.source_settings import check_settings
from agenttool.config.table import Meta, Switch, TableError, Text, key, read_table
from agenttool.errors import ConfigError
from agenttool.records import JsonObject, Part
from agenttool.records.record import replace

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

SERVER = re.compile(r"https?://[^/?#@{}:][^/?#@{}]*(/[^?#]*)?")
SERVER_ADVICE = (
    "must begin with http:// or https://, name a host without a user, and it must have no '?' and no '#'; write"
    " server so, and security, headers or query for what requests need besides"
)

MIB = 2**20

_Pairs = Annotated[dict[str, str], Meta(description='a table of texts; write {NAME = "value"}')]
_Words = Annotated[tuple[str, ...], Meta(description='a list of texts; write ["repos_*"]')]
_Seconds = Annotated[float, Meta(gt=0, le=86_400, description="a number of seconds up to 86400; write 60")]
_Bytes = Annotated[int, Meta(ge=1024, description="a number of bytes from 1024 on; write 16777216")]
_Count = Annotated[int, Meta(ge=1, le=1000, description="a number from 1 to 1000; write 3")]


class OAuthGrant(Part, frozen=True, kw_only=True):
    """How access tokens of an OAuth 2 or OpenID Connect scheme are fetched.

    Attributes:
        client_id: the id of the registered client.
        client_secret: its secret; a reference to a credential, `${credentials.NAME}`.
        refresh_token: fetches tokens with this refresh token instead of client credentials; a reference.
        token_url: the token endpoint; None uses the one of the document.
        scope: what is requested, separated by spaces; None requests the scopes of the document's requirement.
        auth_method: how the secret is sent to the token endpoint.
    """

    client_id: Text
    client_secret: Text | None = None
    refresh_token: Text | None = None
    token_url: Text | None = None
    scope: Text | None = None
    auth_method: Annotated[
        Literal["client_secret_basic", "client_secret_post"],
        Meta(description='"client_secret_basic" or "client_secret_post"; write one of them'),
    ] = "client_secret_basic"


class ToolFacts(Part, frozen=True, kw_only=True):
    """What the owner states about the operations that match a pattern.

    Attributes:
        read_only: whether they only read.
        destructive: whether they destroy something.
        idempotent: whether a request may be repeated.
        title: another title.
        description: another description.
        name: another name, for a pattern that matches one operation.
    """

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    title: Text | None = None
    description: Text | None = None
    name: Text | None = None


class Paging(Part, frozen=True, kw_only=True):
    """How the next page of a list is requested.

    Attributes:
        parameter: the query parameter that selects a page.
        member: the member of a response with the value for the next page, such as `meta.next_cursor`.
    """

    parameter: Text
    member: Text


class _NamedService(Part, frozen=True):
    name: Annotated[str, Meta(description="letters, digits, '_' and '-'; rename it")]


class OpenApiService(_NamedService, frozen=True, kw_only=True):
    """One HTTP service with an OpenAPI document, and how far it is trusted.

    A value of `headers`, `query` or `security` may contain `${credentials.NAME}`, which stands for that credential.
    A pattern of `include`, `exclude` or `tools` matches the name of a tool, the operation id, `METHOD /path`, or
    `tag:NAME`; `*` stands for any characters.

    Attributes:
        name: the namespace of its tools.
        document: the file or the URL of the OpenAPI or Swagger document.
        document_headers: additional headers of the request for the document.
        server: the base URL of requests; None uses the first server of the document.
        variables: values of server variables.
        headers: additional headers of each request; parameters of these names are not asked for.
        query: additional query parameters of each request; parameters of these names are not asked for.
        security: the value of each security scheme by its name in the document: a text, or a table for OAuth.
        include: the operations that become tools; empty means all.
        exclude: operations that do not become tools.
        tools: facts, names and texts that replace those of the document, by pattern.
        references: files and URLs that the document may refer to; an entry that ends with `/` allows all below it.
        allow: private networks, addresses and hosts that requests may lead to, besides public ones.
        trust: whether the method of a request states that it only reads (GET) or may be repeated (GET, PUT, DELETE).
        timeout_s: how long one call may take.
        attempts: how often a request is sent that may be repeated.
        idempotency_header: a header that carries the id of the call, so that every request may be repeated.
        max_response_bytes: the longest response that is read.
        max_document_bytes: the longest document that is read.
        max_pages: how many pages a call may follow.
        paging: how the next page is requested, for a service that returns neither a `Link` header nor a URL.
        refresh_s: how often the document is read again; None only reads it at the start.
        new_tools: `show` offers operations that the document adds later at once; `review` waits for a review.
    """

    document: Text
    document_headers: _Pairs = key(default_factory=dict[str, str])
    server: Text | None = None
    variables: _Pairs = key(default_factory=dict[str, str])
    headers: _Pairs = key(default_factory=dict[str, str])
    query: _Pairs = key(default_factory=dict[str, str])
    security: Annotated[
        dict[str, str | OAuthGrant], Meta(description='a table; write {bearerAuth = "${credentials.NAME}"}')
    ] = key(default_factory=dict[str, str | OAuthGrant])
    include: _Words = ()
    exclude: _Words = ()
    tools: Annotated[dict[str, ToolFacts], Meta(description='a table; write {"get_*" = {read_only = true}}')] = key(
        default_factory=dict[str, ToolFacts]
    )
    references: _Words = ()
    allow: _Words = ()
    trust: Switch = False
    timeout_s: _Seconds = 60.0
    attempts: _Count = 3
    idempotency_header: Text | None = None
    max_response_bytes: _Bytes = 16 * MIB
    max_document_bytes: _Bytes = 64 * MIB
    max_pages: _Count = 10
    paging: Annotated[
        Paging | None, Meta(description='a table; write {parameter = "cursor", member = "next_cursor"}')
    ] = None
    refresh_s: _Seconds | None = None
    new_tools: Annotated[Literal["show", "review"], Meta(description='"show" or "review"; write one of them')] = "show"

    def __post_init__(self) -> None:
        """Convert values that a program gave as those of a table, and reject invalid ones.

        Raises:
            ConfigError: says which value is invalid.
        """
        check_settings(self.name, self)
        if self.server is not None and not SERVER.fullmatch(self.server):
            raise ConfigError(f"the server of source {self.name!r} {SERVER_ADVICE}")
        for pattern, facts in self.tools.items():
            if facts.name is not None and not _TOOL_NAME.fullmatch(facts.name):
                reason = f"has letters, digits, '_' and '-', got {facts.name!r}; write another"
                raise ConfigError(f"the name of {pattern!r} in tools of source {self.name!r} {reason}")

    @property
    def kind(self) -> str:
        """The kind of source, by which a runtime finds its factory."""
        return "openapi"

    @property
    def is_remote(self) -> bool:
        """Whether the document has a URL."""
        return self.document.startswith(("http://", "https://"))


def read_service(name: str, members: JsonObject, folder: Path | None = None) -> OpenApiService:
    """Return the service of a settings table; relative files start at `folder`.

    Raises:
        ConfigError: a member is unknown, missing or invalid.
    """
    try:
        service = read_table({**members, "name": name}, OpenApiService, "an openapi source", shows_values=False)
    except TableError as error:
        raise ConfigError(str(error)) from error
    if folder is None:
        return service
    return replace(
        service,
        document=_below(folder, service.document),
        references=tuple(_below(folder, each) for each in service.references),
    )


def _below(folder: Path, place: str) -> str:
    if "://" in place:
        return place
    return str(folder / place) + ("/" if place.endswith("/") else "")
