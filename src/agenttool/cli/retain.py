"""`agenttool retain`: what is too old goes, and what is left says so."""

import asyncio
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from agenttool.assemble import kept_at
from agenttool.cli.journal.opening import SETTINGS, JsonOption, StoreOption, journal_file, refuse
from agenttool.codec import json_bytes
from agenttool.config import StoreSetting, read_config
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import DurableLog
from agenttool.stores.places import Kept, open_place

app = typer.Typer(add_completion=False)

DAY_NS = 24 * 3600 * 10**9


class Days(NamedTuple):
    """For how long things are kept; for ever if nobody says."""

    payloads: float | None
    journal: float | None


@app.command()
def retain(
    *,
    payloads: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="For how long stored bytes stay")
    ] = None,
    journal: Annotated[float | None, typer.Option(metavar="DAYS", min=0, help="For how long facts stay")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep stored bytes and facts for so many days, and let go of what is older

    What is left out is as [store] in agenttool.toml says (`payload_days`,
    `journal_days`); if that says nothing, nothing goes. A result whose bytes have
    gone still says what they were. Facts go from the oldest on, up to the first of
    a call that has not ended, and `agenttool verify` goes on from there.
    """  # noqa: D415 -- as in the table of commands
    try:
        setting = read_config(SETTINGS).store if store is None and Path(SETTINGS).exists() else None
        days = _days(payloads, journal, setting)
        gone, anchor = asyncio.run(_let_go(_kept(store, setting), days))
    except (ConfigError, StoreError) as error:
        refuse(error)
    if as_json:
        typer.echo(json_bytes({"payloads": gone, "facts_up_to": anchor}).decode())
    else:
        facts = f"no facts up to position {anchor} are left" if anchor else "all facts are left"
        typer.echo(f"{gone:,} {'payload' if gone == 1 else 'payloads'} went; {facts}")


def _days(payloads: float | None, journal: float | None, setting: StoreSetting | None) -> Days:
    """Join what was given with what settings say."""
    if setting is not None:
        payloads = setting.payload_days if payloads is None else payloads
        journal = setting.journal_days if journal is None else journal
    if payloads is None and journal is None:
        raise ConfigError("nobody says for how long to keep anything; give --payloads DAYS, --journal DAYS, or both")
    return Days(payloads, journal)


def _kept(store: str | None, setting: StoreSetting | None) -> Kept:
    """Open a journal that is there, and its payloads."""
    file = journal_file(store)
    if not file.is_file():
        raise ConfigError(f"there is no journal at {str(file)!r}; name its file with --store")
    return open_place(f"sqlite:{file}", STEPS, None if setting is None else kept_at(setting)[1])


async def _let_go(kept: Kept, days: Days) -> tuple[int, int]:
    now_ns, gone, position = time.time_ns(), 0, 0
    log: DurableLog = kept.log  # pyright: ignore[reportAssignmentType] -- a file has such a log
    try:
        if days.payloads is not None:
            gone = await kept.payloads.expire(now_ns - round(days.payloads * DAY_NS))
        if days.journal is not None:
            position = (await log.let_go(now_ns - round(days.journal * DAY_NS))).position
    finally:
        if kept.close is not None:
            await kept.close()
    return gone, position
