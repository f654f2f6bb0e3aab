"""The greenhouse once more, as an author writes it with `agenttool.rap`: the same tools as the provider in Node.

Settings come from the environment, as a deployment would give them: `STORE`, `BEARER`, `TOKEN_URL`,
`PEER_URL` and `PEER_STORE`.
"""

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agenttool.rap import (
    Bearer,
    Declined,
    DescribedImage,
    Event,
    OAuthClient,
    Provider,
    RapCall,
    Result,
    display_diff,
    display_image,
    display_text,
)

BEDS = 40
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NOTES = Path(os.environ["STORE"]).with_suffix(".notes")

mail = OAuthClient(
    name="greenhouse-mail",
    authorize_url="https://login.example.test/authorize",
    token_url=os.environ.get("TOKEN_URL", "http://127.0.0.1:9/token"),
    client_id="greenhouse",
    scopes=("mail.read",),
)
provider = Provider(
    "greenhouse",
    store=os.environ["STORE"],
    auth=Bearer(os.environ["BEARER"]) if "BEARER" in os.environ else None,
    allow=["127.0.0.0/8"],
    clients=[mail],
)


def existing(bed: int) -> int:
    if not 1 <= bed <= BEDS:
        raise Declined(f"bed {bed} does not exist; valid beds are 1 to {BEDS}")
    return bed


@provider.tool(read_only=True)
def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


@provider.tool(read_only=True, display_script='"probe of bed " + args.bed')
def read_probe(bed: int) -> dict[str, float]:
    """Read one soil probe."""
    return {"bed": existing(bed), "moisture": 0.42}


@provider.tool(read_only=True)
def list_beds() -> dict[str, int]:
    """Count the beds."""
    return {"beds": BEDS}


@provider.tool(read_only=True)
def photograph(bed: int) -> Result:
    """Take a photo of one bed."""
    patch = "--- beds.toml\n+++ beds.toml\n@@ -1 +1 @@\n-photos = 0\n+photos = 1\n"
    image = DescribedImage(base64.b64decode(PIXEL), "image/png", f"Photo of bed {existing(bed)}, 1x1 PNG.")
    display = [display_image(PIXEL, "image/png"), display_diff("beds.toml", patch), display_text(f"photo of bed {bed}")]
    return Result(parts=[image], display_as=display)


@provider.tool(idempotent=True, long_running=True)
async def grow(ms: Annotated[int, Field(ge=0, le=600_000)]) -> str:
    """Wait for a plant."""
    await asyncio.sleep(ms / 1000)
    return f"grown after {ms} ms"


@provider.tool
def explode() -> str:
    """Fail in a way that nobody foresaw."""
    message = "secretInternalName"
    raise RuntimeError(message)


@provider.subscription(idempotent=True)
async def watch(
    bed: int, events: int, *, every_ms: int = 5, associative: bool = False, final: bool = True, call: RapCall
):
    """Subscribe to a bed."""
    yield f"Watching bed {existing(bed)}."
    for n in range(int(call.bookmark or 0) + 1, events + 1):
        await asyncio.sleep(every_ms / 1000)
        value = json.dumps({"bed": bed, "n": n}, separators=(",", ":"))
        yield Event(value=value, associative=associative, final=final and n == events, bookmark=str(n))
    await asyncio.sleep(600)


@provider.tool(destructive=True)
async def open_valve(minutes: int, call: RapCall) -> str:
    """Open the main valve; asks the user first."""
    picked = await call.choose(
        "Open the main valve?", [f"Open for {minutes} minutes", "Open for 1 minute", "Leave closed"]
    )
    return f"picked {picked}"


@provider.tool(requires_auth="greenhouse-mail")
async def read_mail(call: RapCall) -> str:
    """Read the newest letter."""
    await call.authorize()
    return "one letter: the tomatoes are ripe"


@provider.tool
async def paint(patch: str, call: RapCall) -> str:
    """Show a patch in the diff view; an empty one clears it."""
    await call.view("diff", {"patch": patch} if patch else {})
    return "painted" if patch else "cleared"


def notes() -> dict[str, str]:
    return json.loads(NOTES.read_text()) if NOTES.exists() else {}


def keep(found: dict[str, str]) -> None:
    NOTES.write_text(json.dumps(found))


@provider.tool(idempotent=True)
async def remember(name: str, value: str, call: RapCall) -> str:
    """Keep a note for this thread and its children."""
    keep(notes() | {json.dumps([call.thread_id, name]): value})
    return "noted"


@provider.tool(read_only=True)
async def recall(name: str, call: RapCall) -> str:
    """Read a note of this thread or of its ancestors."""
    for thread in (call.thread_id, *reversed(call.ancestors)):
        if found := notes().get(json.dumps([thread, name])):
            return found
    raise Declined(f"there is no note {name!r}; keep one with remember")


@provider.on_close
async def forget(thread: str) -> None:
    keep({key: value for key, value in notes().items() if json.loads(key)[0] != thread})


@provider.on_migrate
async def move(session: str, destination: str) -> None:
    """Hand the notes over in a private way, as the protocol allows: the peer's file is at hand."""
    if destination != os.environ.get("PEER_URL"):
        raise Declined("that destination is no greenhouse of ours; name another")
    peer = Path(os.environ["PEER_STORE"]).with_suffix(".notes")
    moving = {key: value for key, value in notes().items() if json.loads(key)[0].split("/")[0] == session}
    peer.write_text(json.dumps(moving))
