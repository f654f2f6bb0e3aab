"""Store partial results that a tool reports while it runs."""

from agenttool.errors import ToolFailure
from agenttool.pipeline.core import Core
from agenttool.pipeline.guard import guard
from agenttool.pipeline.readers import grant_read
from agenttool.pipeline.tool import Tool
from agenttool.records import Digest, PersistenceStrategy
from agenttool.results.payloads import Payload
from agenttool.results.persistence import PARTIAL_RESULT, native_payloads
from agenttool.results.redaction import Scrubber


def store_partial_result(
    core: Core, tool: Tool | None, part: object, scrubber: Scrubber | None
) -> tuple[str, ...] | None:
    """Start to store a scrubbed partial result and return its id.

    Returns none if the tool forbids storage, or the part cannot be encoded.
    """
    if tool is None or tool.persistence.over_limit is PersistenceStrategy.NEVER_PERSIST:
        return None
    redactor = tool.mapping.redactor
    if redactor is not None and redactor.is_whole:
        return None
    try:
        payloads = native_payloads(part, redactor=redactor, scrubber=scrubber, relation=PARTIAL_RESULT)
    except ToolFailure:
        return None
    for payload in payloads:
        _store(core, payload)
    name = payloads[0].ref.id
    return None if name is None else (name,)


def _store(core: Core, payload: Payload) -> None:
    """Store a payload in a task of its own, so that the report does not wait."""
    digest = payload.ref.digest
    if digest is not None:
        storing = core.loop.create_task(guard(lambda: _put(core, payload.data, digest)))
        core.storing.add(storing)
        storing.add_done_callback(core.storing.discard)


async def _put(core: Core, data: bytes, digest: Digest) -> None:
    await core.payloads.put(data, digest)
    await grant_read(core, digest)
