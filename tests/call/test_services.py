import pytest

from agenttool.call.services import PayloadAccess, PayloadReader
from agenttool.codec import digest_of_bytes
from agenttool.errors import StoreError
from agenttool.ports.deferred import Thread


class FailingOnce:
    """A document store whose first write fails."""

    def __init__(self):
        self.documents = {}
        self.has_failed = False

    async def put(self, kind, key, body):
        if not self.has_failed:
            self.has_failed = True
            raise StoreError("disk full")
        self.documents[kind, key] = body

    async def get(self, kind, key):
        return self.documents.get((kind, key))


async def test_a_grant_that_could_not_be_stored_is_not_given_and_is_stored_the_next_time():
    documents, reader, digest = FailingOnce(), PayloadReader(Thread(thread_id="t")), digest_of_bytes(b"x")
    access = PayloadAccess(None, documents)
    with pytest.raises(StoreError):
        await access.grant_read(reader, digest)
    assert not await access.may_read(reader, digest)
    await access.grant_read(reader, digest)
    assert await PayloadAccess(None, documents).may_read(reader, digest)
