"""`agenttool credentials`: the credentials of the settings, and whether calls can lease them. No value is printed."""

import asyncio

import typer

from agenttool.assemble.credentials import make_credentials
from agenttool.assemble.settings import read_settings
from agenttool.cli.format import print_rows
from agenttool.cli.options import SETTINGS_FILE, SettingsOptions, argument, flag, option
from agenttool.cli.output import plain_table
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError, CredentialMissing
from agenttool.ports.credentials import CredentialProvider
from agenttool.records import JsonObject

UNAVAILABLE = 1


def credentials(
    names: list[str] | None = argument("NAME", "Only these credentials"),
    *,
    check: bool = flag("--check", "Fetch each one now; exit code 1 if one is missing"),
    actor: str | None = option("--actor ACTOR", "Fetch them as for a call of this actor, such as user:ada"),
    options: SettingsOptions,
) -> None:
    """List the credentials, and which of them are missing.

    The values are never printed.
    """
    known = make_credentials(read_settings(options.config, ())[0], None)
    for name in names or ():
        if name not in known:
            raise ConfigError(f"no credential is called {name!r}; {suggestion(name, known) if known else 'add it'}")
    found = asyncio.run(_states([known[name] for name in names or known], actor, check=check))
    good = "fetched" if check else "available"
    cells = ((str(row["name"]), _source_text(row), str(row.get("reason", good))) for row in found)
    empty = f"there are no credentials; add [credentials.NAME] to {SETTINGS_FILE}"
    print_rows(found, [plain_table("credential", "source", "state", rows=cells)], empty=empty)
    if check and any("reason" in row for row in found):
        raise typer.Exit(UNAVAILABLE)


def _source_text(row: JsonObject) -> str:
    return f"{row['source']}, per actor" if row["per_actor"] and row["source"] != "actors" else str(row["source"])


async def _states(chosen: list[CredentialProvider], actor: str | None, *, check: bool) -> list[JsonObject]:
    """Return each credential as JSON, with the reason if it is not available; only `check` fetches it to find out."""
    found: list[JsonObject] = []
    for each in chosen:
        fault = each.fault() or (each.refusal(actor) if check or actor is not None else None)
        if check and fault is None:
            try:
                await each.fetch(actor)
            except CredentialMissing as error:
                fault = str(error)
        row: JsonObject = {"name": each.name, "source": each.kind, "per_actor": each.is_per_actor, "place": each.place}
        found.append({**row, "available": not fault, **({"reason": fault} if fault else {})})
    return found
