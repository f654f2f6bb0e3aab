"""Who may read stored output back: the conversation whose call it came from, and those that conversation came from."""

from agenttool.pipeline.core import Core
from agenttool.records import Digest

KIND = "payload_reader"


async def let_read(core: Core, digest: Digest) -> None:
    """Let a conversation read what one of its calls has stored, also in a later process.

    Raises:
        StoreError: it could not be kept that it may.
    """
    for thread_id in (core.thread.thread_id, *core.thread.ancestors):
        key = _key(thread_id, digest)
        if key not in core.readable:
            core.readable.add(key)
            if core.shelf is not None:
                await core.shelf.put(KIND, key, b"1")


async def may_read(core: Core, digest: Digest) -> bool:
    """Tell whether stored output came from a call of this conversation, or of one that came from it.

    Raises:
        StoreError: nobody can tell now.
    """
    key = _key(core.thread.thread_id, digest)
    return key in core.readable or (core.shelf is not None and await core.shelf.get(KIND, key) is not None)


def _key(thread_id: str, digest: Digest) -> str:
    return f"{digest} {thread_id}"
