"""`agenttool credentials`: the credentials of the settings, and whether calls can lease them. No value is printed."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from agenttool.assemble.credentials import make_credentials
from agenttool.assemble.settings import read_settings
from agenttool.cli.format import print_json
from agenttool.cli.options import SETTINGS_FILE, JsonOption, SettingsOption, find_settings
from agenttool.cli.output import escape_markup, plain_table, print_blocks, print_text
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError, CredentialMissing
from agenttool.ports.credentials import CredentialProvider

UNAVAILABLE = 1


def credentials(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these credentials")] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Fetch each one now; exit code 1 if one is missing")] = False,
    actor: Annotated[
        str | None, typer.Option(metavar="ACTOR", help="Fetch them as for a call of this actor, such as user:ada")
    ] = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the credentials, and which of them are missing.

    The values are never printed.
    """
    known = make_credentials(read_settings(find_settings(settings), ())[0], None)
    for name in names or ():
        if name not in known:
            raise ConfigError(f"no credential is called {name!r}; {suggestion(name, known) if known else 'add it'}")
    chosen = [known[name] for name in names or known]
    faults = asyncio.run(_faults(chosen, actor, check=check))
    rows = [(each, faults[each.name] or "") for each in chosen]
    if as_json:
        for each, fault in rows:
            members = {"name": each.name, "source": each.kind, "per_actor": each.is_per_actor, "place": each.place}
            print_json({**members, "available": not fault, **({"reason": fault} if fault else {})})
    elif not rows:
        print_text(Console(stderr=True), f"there are no credentials; add [credentials.NAME] to {SETTINGS_FILE}", "dim")
    else:
        good = "fetched" if check else "available"
        table = ((escape_markup(each.name), _source(each), escape_markup(fault) or good) for each, fault in rows)
        print_blocks([plain_table("credential", "source", "state", rows=table)])
    if check and any(fault for _, fault in rows):
        raise typer.Exit(UNAVAILABLE)


def _source(credential: CredentialProvider) -> str:
    return (
        f"{credential.kind}, per actor" if credential.is_per_actor and credential.kind != "actors" else credential.kind
    )


async def _faults(chosen: list[CredentialProvider], actor: str | None, *, check: bool) -> dict[str, str | None]:
    """Return why each credential cannot be had; none if it can, as far as is known without a fetch."""
    found: dict[str, str | None] = {}
    for each in chosen:
        found[each.name] = each.fault() or (each.refusal(actor) if check or actor is not None else None)
        if check and found[each.name] is None:
            try:
                await each.fetch(actor)
            except CredentialMissing as error:
                found[each.name] = str(error)
    return found
