"""A copy of stored bytes: all of them, none half, and those that are there already are left alone."""

import asyncio
import hashlib

import pytest

from agenttool.errors import StoreError
from agenttool.stores.payloads import ObjectPayloads, copy_folder

TEXTS = [b"one", b"two", b"three" * 10_000]


def digest_of(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def source(tmp_path):
    async def fill(payloads):
        for each in TEXTS:
            await payloads.put(each, digest_of(each))

    asyncio.run(fill(ObjectPayloads.open(tmp_path / "payloads")))
    return tmp_path / "payloads"


async def test_a_copy_has_every_payload_and_a_second_one_only_what_is_new(source, tmp_path):
    target = tmp_path / "copy"
    assert copy_folder(source, target) == len(TEXTS)
    assert [await ObjectPayloads.open(target).get(digest_of(each)) for each in TEXTS] == TEXTS
    assert target.stat().st_mode & 0o777 == 0o700
    await ObjectPayloads.open(source).put(b"four", digest_of(b"four"))
    assert copy_folder(source, target) == 1


def test_what_is_on_its_way_is_not_copied(source, tmp_path):
    first = next(each for each in source.rglob("*") if each.is_file())
    first.with_name(f"{first.name}#1").write_bytes(b"half")
    copy_folder(source, tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("*#*"))


def test_a_place_that_cannot_be_written_is_told(source, tmp_path):
    (tmp_path / "copy").write_text("a file")
    with pytest.raises(StoreError, match="cannot copy the payloads"):
        copy_folder(source, tmp_path / "copy")
