"""`agenttool keys`: API keys and login links of a server, in its store."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import typer
from rich.text import Text

from agenttool.cli.format import print_json, print_rows, utc
from agenttool.cli.options import STORE_FILE, JsonOption, SettingsOption, StoreOptions, find_settings, open_parts
from agenttool.cli.output import done, hint, plain_table
from agenttool.config import ServerSetting, load_config
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.history.listed_call import parse_span
from agenttool.history.printable import printable
from agenttool.ports.identity import DEFAULT_TENANT, AccessRole
from agenttool.records import JsonObject
from agenttool.server.access_routes import LINK_S
from agenttool.server.grants import AccessGrants, Grant, GrantKind
from agenttool.server.tenants import is_tenant_name
from agenttool.world import os_user

app = typer.Typer(add_completion=False)

_StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="FILE", help=f"Store of the server; default: settings, or {STORE_FILE}")
]
_RoleOption = Annotated[
    list[AccessRole] | None, typer.Option("--role", help="What the key may do; may be repeated. Default: caller")
]
_TenantOption = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Tenant of the key")]


@app.callback()
def keys() -> None:
    """Add, list and revoke keys; each command takes --json."""


@asynccontextmanager
async def _open_grants(store: str | None, settings: SettingsOption) -> AsyncGenerator[AccessGrants]:
    options = StoreOptions(store, settings).for_use()
    if options.file is None:
        raise ConfigError("the store is in memory, so no key outlives the server; name a file with --store")
    async with open_parts(options.file, options.payloads) as parts:
        yield AccessGrants(parts.documents, time.time)


@app.command()
def add(  # noqa: PLR0913 -- one for each option of the command
    subject: Annotated[str, typer.Argument(help="Who uses the key; rules match it as the actor, such as agent:ci")],
    *,
    roles: _RoleOption = None,
    tenant: _TenantOption = DEFAULT_TENANT,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="How long it is valid: 12h, 30d")] = None,
    store: _StoreOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add an API key and print it; only its digest is stored."""
    if not is_tenant_name(tenant):
        raise ConfigError(f"a tenant is named with a-z, 0-9, - and _, got {tenant!r}; use such a name")
    lifetime_s = None if expires is None else parse_span("--expires", expires)

    async def add_key() -> tuple[str, Grant]:
        async with _open_grants(store, settings) as grants:
            return await grants.add(
                GrantKind.KEY,
                subject=subject,
                roles=roles or [AccessRole.CALLER],
                tenant=tenant,
                created_by=_operator(),
                lifetime_s=lifetime_s,
            )

    token, grant = asyncio.run(add_key())
    if as_json:
        print_json({"key": token, **_document(grant)})
        return
    typer.echo(token)
    use = "it is not shown again. Use it as AGENTTOOL_KEY, or as a bearer token"
    hint(printable(f"key {grant.grant_id} of {subject}; {use}"))


@app.command("list")
def list_keys(
    *,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Only those of a tenant")] = None,
    store: _StoreOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the API keys, without their secrets."""

    async def read() -> list[Grant]:
        async with _open_grants(store, settings) as grants:
            return [*await grants.list(GrantKind.KEY, tenant)]

    found = asyncio.run(read())
    rows = (
        (
            Text(each.grant_id, style="cyan"),
            Text(printable(each.subject)),
            each.tenant,
            " ".join(each.roles),
            _state(each),
            "never" if each.used_at_s is None else utc(round(each.used_at_s * 1e9)),
        )
        for each in found
    )
    table = plain_table("key", "subject", "tenant", "roles", "state", "last used", rows=rows)
    print_rows([*map(_document, found)], [table], as_json=as_json, empty="there are no keys")


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The id of the key, as `list` prints it, or the key itself")],
    *,
    store: _StoreOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key in every process on the store; its requests and streams end, its calls continue."""
    named = key_id.split("_")[1] if key_id.startswith("atk_") else key_id

    async def revoke_key() -> bool:
        async with _open_grants(store, settings) as grants:
            return await grants.revoke(GrantKind.KEY, named)

    if not asyncio.run(revoke_key()):
        raise ConfigError(f"there is no valid key {named!r}; list them with `{program_name()} keys list`")
    if as_json:
        print_json({"revoked": named})
    else:
        done(f"revoked {named}")


@app.command()
def link(
    *,
    url: Annotated[str | None, typer.Option(help="URL of the server; default: as settings say")] = None,
    tenant: _TenantOption = DEFAULT_TENANT,
    store: _StoreOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link that logs a browser in to the console once, with every role."""
    server = load_config(find_settings(settings)).server or ServerSetting()

    async def make() -> str:
        async with _open_grants(store, settings) as grants:
            return await login_link(grants, url or server.reached or "http://127.0.0.1:8642", tenant=tenant)

    made = asyncio.run(make())
    print_json({"login_url": made}) if as_json else typer.echo(made)


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
