"""The requests and responses about identity: login, the own identity, API keys and console sessions."""

from typing import Annotated, Literal

from msgspec import Meta

from agenttool.server.messages import ApiBody, ApiReply, RoleName, Time


class LoginBody(ApiBody):
    """The token of a login link, or an API key."""

    token: Annotated[str, Meta(max_length=400)] | None = None
    key: Annotated[str, Meta(max_length=400)] | None = None


class ServerInfo(ApiReply):
    """What a client may know about the server."""

    version: str
    is_demo: bool
    is_durable: bool
    approves_own_calls: bool
    url: str
    mcp_url: str | None


class Me(ApiReply):
    """The identity of the request."""

    subject: str
    tenant: str
    roles: list[str]
    kind: Literal["none", "local", "key", "jwt", "session"]
    key_id: str | None
    expires_at: Time | None
    server: ServerInfo


class LoginReply(Me):
    """The identity of a new console session, and the part of its secret that only the page has."""

    page_key: str


class KeyBody(ApiBody):
    """A new API key."""

    subject: Annotated[str, Meta(min_length=1, max_length=200)]
    roles: Annotated[list[RoleName], Meta(min_length=1)]
    expires_in_s: Annotated[float, Meta(gt=0, le=1e9)] | None = None


class KeyItem(ApiReply):
    """An API key, without its secret."""

    key_id: str
    subject: str
    tenant: str
    roles: list[str]
    created_at: Time
    created_by: str
    expires_at: Time | None
    last_used_at: Time | None
    revoked_at: Time | None


class NewKey(KeyItem):
    """An API key with its secret, which is shown once."""

    key: str


class KeyList(ApiReply):
    """The API keys of a tenant."""

    items: list[KeyItem]


class SessionItem(ApiReply):
    """A console session."""

    session_id: str
    subject: str
    roles: list[str]
    key_id: str | None
    created_at: Time
    expires_at: Time | None
    is_current: bool


class SessionList(ApiReply):
    """The console sessions of a tenant."""

    items: list[SessionItem]
