"""`agenttool keys`: API keys and login links of a server, in its store."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, TypeVar

import typer

from agenttool.cli.format import print_json, print_rows, utc
from agenttool.cli.options import StoreOptions, open_parts, option, required
from agenttool.cli.output import done, fixed, hint, plain_table, print_text
from agenttool.config import ServerSetting, load_config
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.history.listed_call import parse_span
from agenttool.ports.identity import DEFAULT_TENANT, AccessRole
from agenttool.records import JsonObject
from agenttool.server.access_routes import LINK_S
from agenttool.server.grants import AccessGrants, Grant, GrantKind
from agenttool.server.tenants import is_tenant_name
from agenttool.world import os_user

app = typer.Typer(add_completion=False)

_T = TypeVar("_T")

_TENANT: str = option("--tenant NAME", "Tenant of the key", default=DEFAULT_TENANT)


@app.callback()
def keys() -> None:
    """Add, list and revoke keys; each command takes --json."""


def _on_grants(options: StoreOptions, use: Callable[[AccessGrants], Coroutine[None, None, _T]]) -> _T:
    """Open the access grants of a store, and return what `use` returns for them."""
    options = options.for_use()
    file = options.file
    if file is None:
        raise ConfigError("the store is in memory, so no key outlives the server; name a file with --store")

    async def run() -> _T:
        async with open_parts(file, options.payloads) as parts:
            return await use(AccessGrants(parts.documents, time.time))

    return asyncio.run(run())


@app.command()
def add(
    subject: Annotated[str, required("", "Who uses the key; rules match it as the actor, such as agent:ci")],
    *,
    roles: list[AccessRole] | None = option("--role", "What the key may do; may be repeated. Default: caller"),
    tenant: str = _TENANT,
    expires: str | None = option("--expires TIME", "How long it is valid: 12h, 30d"),
    options: StoreOptions,
) -> None:
    """Add an API key and print it; only its digest is stored."""
    if not is_tenant_name(tenant):
        raise ConfigError(f"a tenant is named with a-z, 0-9, - and _, got {tenant!r}; use such a name")
    lifetime_s = None if expires is None else parse_span("--expires", expires)
    token, grant = _on_grants(
        options,
        lambda grants: grants.add(
            GrantKind.KEY,
            subject=subject,
            roles=roles or [AccessRole.CALLER],
            tenant=tenant,
            created_by=_operator(),
            lifetime_s=lifetime_s,
        ),
    )
    print_json({"key": token, **_document(grant)})
    print_text(token)
    use = "it is not shown again. Use it as AGENTTOOL_KEY, or as a bearer token"
    hint(f"key {grant.grant_id} of {subject}; {use}")


@app.command("list")
def list_keys(
    *,
    tenant: str | None = option("--tenant NAME", "Only those of a tenant"),
    options: StoreOptions,
) -> None:
    """List the API keys, without their secrets."""
    options.for_use().existing_file()
    found = _on_grants(options, lambda grants: grants.list(GrantKind.KEY, tenant))
    rows = (
        (
            each.grant_id,
            each.subject,
            each.tenant,
            " ".join(each.roles),
            _state(each),
            "never" if each.used_at_s is None else utc(round(each.used_at_s * 1e9)),
        )
        for each in found
    )
    table = plain_table(fixed("key", "cyan"), "subject", "tenant", "roles", "state", "last used", rows=rows)
    print_rows([*map(_document, found)], [table], empty="there are no keys")


@app.command()
def revoke(
    key_id: Annotated[str, required("", "The id of the key, as `list` prints it, or the key itself")],
    *,
    options: StoreOptions,
) -> None:
    """Revoke an API key in every process on the store; its requests and streams end, its calls continue."""
    options.for_use().existing_file()
    named = key_id.split("_")[1] if key_id.startswith("atk_") else key_id
    if not _on_grants(options, lambda grants: grants.revoke(GrantKind.KEY, named)):
        raise ConfigError(f"there is no valid key {named!r}; list them with `{program_name()} keys list`")
    print_json({"revoked": named})
    done(f"revoked {named}")


@app.command()
def link(
    *,
    url: str | None = option("--url", "URL of the server; default: url of [server], or where the last server ran"),
    tenant: str = _TENANT,
    options: StoreOptions,
) -> None:
    """Print a link that logs a browser in to the console once, with every role."""
    server = load_config(options.config).server or ServerSetting()

    async def make(grants: AccessGrants) -> str:
        address = url or server.url or await grants.url() or server.reached or "http://127.0.0.1:8642"
        return await login_link(grants, address, tenant=tenant)

    made = _on_grants(options, make)
    print_json({"login_url": made})
    print_text(made)


async def login_link(grants: AccessGrants, url: str, *, tenant: str = DEFAULT_TENANT) -> str:
    """Return a link that can be used once; the token is in the fragment, which browsers send to no server."""
    token, _ = await grants.add(
        GrantKind.LOGIN,
        subject=_operator(),
        roles=[*AccessRole],
        tenant=tenant,
        created_by=_operator(),
        lifetime_s=LINK_S,
    )
    return f"{url}/#login={token}"


def _operator() -> str:
    """Return the subject of the person who runs this process."""
    user = os_user()
    return f"user:{user.name or user.uid}"


def _state(grant: Grant) -> str:
    if grant.revoked_at_s is not None:
        return "revoked"
    if not grant.is_valid(time.time()):
        return "expired"
    return "valid" if grant.expires_at_s is None else f"until {utc(round(grant.expires_at_s * 1e9))}"


def _document(grant: Grant) -> JsonObject:
    return {
        "key_id": grant.grant_id,
        "subject": grant.subject,
        "tenant": grant.tenant,
        "roles": [each.value for each in grant.roles],
        "state": _state(grant),
        "created_by": grant.created_by,
    }
