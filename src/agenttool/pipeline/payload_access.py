"""Access to stored output: the conversation of the call that stored it, and its ancestors."""

from agenttool.pipeline.core import Core
from agenttool.records import Digest

KIND = "payload_reader"


async def grant_read(core: Core, digest: Digest) -> None:
    """Grant a conversation and its ancestors access to stored output, also in later processes.

    Raises:
        StoreError: the grant could not be stored.
    """
    for thread_id in (core.thread.thread_id, *core.thread.ancestors):
        key = _key(thread_id, digest)
        if key not in core.readable:
            core.readable.add(key)
            if core.shelf is not None:
                await core.shelf.put(KIND, key, b"1")


async def may_read(core: Core, digest: Digest) -> bool:
    """Return whether this conversation may read stored output.

    Raises:
        StoreError: the store could not be read.
    """
    key = _key(core.thread.thread_id, digest)
    return key in core.readable or (core.shelf is not None and await core.shelf.get(KIND, key) is not None)


def _key(thread_id: str, digest: Digest) -> str:
    return f"{digest} {thread_id}"
