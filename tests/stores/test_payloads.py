"""Bytes in a folder or an object store: whole, true to their name, and for their owner's eyes only."""

import os
import stat
import time
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from agenttool.codec import digest_of_bytes
from agenttool.errors import ConfigError, StoreError
from agenttool.stores import payloads as module
from agenttool.stores.payloads import REFRESH_S, ObjectPayloads

DATA = b"twelve lines of notes" * 200_000
DIGEST = digest_of_bytes(DATA)
DAY = 24 * 3600


def file_of(folder):
    (file,) = (each for each in folder.rglob("*") if each.is_file())
    return file


async def gather_into(pieces, stream):
    async for piece in stream:
        pieces.append(piece)


async def test_bytes_that_were_changed_are_never_given_out_as_the_whole(tmp_path):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    file = file_of(tmp_path)
    file.write_bytes(DATA[:-1] + b"!")
    with pytest.raises(StoreError, match="was changed"):
        await store.get(DIGEST)
    got = []
    with pytest.raises(StoreError, match="was changed"):
        await gather_into(got, store.stream(DIGEST))
    assert 0 < len(b"".join(got)) < len(DATA), "pieces came, but not the last one"
    file.write_bytes(DATA[:100])
    with pytest.raises(StoreError, match="was changed"):
        await store.get(DIGEST)


async def test_a_stream_comes_in_pieces(tmp_path):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    pieces = [piece async for piece in store.stream(DIGEST)]
    assert len(pieces) > 2
    assert b"".join(pieces) == DATA


async def test_a_new_folder_is_for_its_owner_only(tmp_path):
    folder = tmp_path / "some" / "payloads"
    await ObjectPayloads.open(folder).put(b"x", digest_of_bytes(b"x"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_bytes_that_are_put_again_are_as_good_as_new(tmp_path):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    old = time.time() - 30 * DAY
    os.utime(file_of(tmp_path), (old, old))
    await store.put(DATA, DIGEST)
    assert await store.expire(time.time_ns() - 7 * DAY * 10**9) == 0
    assert await store.get(DIGEST) == DATA
    os.utime(file_of(tmp_path), (old, old))
    assert await store.expire(time.time_ns() - 7 * DAY * 10**9) == 1
    assert await store.get(DIGEST) is None


@pytest.mark.parametrize("found", [b"", DATA[:100], DATA[:-1] + b"!"], ids=["nothing", "a part", "others"])
async def test_bytes_that_are_put_again_mend_what_was_spoiled(tmp_path, found):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    file_of(tmp_path).write_bytes(found)
    await store.put(DATA, DIGEST)
    assert await store.get(DIGEST) == DATA


async def test_a_link_in_the_place_of_bytes_leads_nowhere(tmp_path):
    folder, elsewhere = tmp_path / "payloads", tmp_path / "precious"
    store = ObjectPayloads.open(folder)
    await store.put(DATA, DIGEST)
    elsewhere.write_bytes(b"precious")
    file = file_of(folder)
    file.unlink()
    file.symlink_to(elsewhere)
    await store.put(DATA, DIGEST)
    assert await store.get(DIGEST) == DATA
    assert elsewhere.read_bytes() == b"precious"


async def test_a_place_that_is_gone_is_told_in_our_words(tmp_path):
    store = ObjectPayloads.open(tmp_path / "payloads")
    (tmp_path / "payloads").rmdir()
    (tmp_path / "payloads").write_bytes(b"no folder")
    with pytest.raises(StoreError, match="look at the store of payloads"):
        await store.put(DATA, DIGEST)


async def test_only_old_files_that_the_library_staged_are_deleted(tmp_path):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    stored = file_of(tmp_path)
    ages = {f"{stored.name}#1": 60, f"{stored.name}#12": 60, f"{stored.name}#2": -60, "notes#one": 60, "#": 60}
    for name, age in ages.items():
        stored.with_name(name).write_bytes(DATA)
        then = time.time() - REFRESH_S - age
        os.utime(stored.with_name(name), (then, then))
    assert await store.expire(0) == 0, "none of them was a payload"
    left = {each.name for each in stored.parent.iterdir()}
    assert left == {stored.name, f"{stored.name}#2", "notes#one", "#"}, "a process may still write a recent one"
    assert await store.get(DIGEST) == DATA


async def test_bytes_that_somebody_puts_while_the_old_go_stay(tmp_path, monkeypatch):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    old = time.time() - 30 * DAY
    os.utime(file_of(tmp_path), (old, old))
    listed = [next(store._store.list(prefix="sha256"))]

    class Listed:
        """A listing that was made before somebody put them again."""

        def __getattr__(self, name):
            return getattr(real, name)

        def list(self, prefix):
            return iter(listed if prefix == "sha256" else ())

    real, store._store = store._store, Listed()
    await store.put(DATA, DIGEST)
    assert await store.expire(time.time_ns() - 7 * DAY * 10**9) == 0
    assert await store.get(DIGEST) == DATA


async def test_the_library_answers_from_no_thread_that_a_process_could_not_wait_for_before_it_ends(tmp_path):
    class Waiting:
        """The library, without its way for event loops."""

        def __getattr__(self, name):
            assert not name.endswith("_async"), name
            return getattr(real, name)

    store = ObjectPayloads.open(tmp_path)
    real, store._store = store._store, Waiting()
    for _ in range(2):
        await store.put(DATA, DIGEST)
    assert await store.get(DIGEST) == DATA
    assert await store.get(DIGEST, start=5, length=7) == DATA[5:12]
    assert b"".join([piece async for piece in store.stream(DIGEST)]) == DATA
    assert await store.expire(time.time_ns() + DAY) == 1


async def test_a_folder_may_be_spelled_as_a_url_and_is_synced_like_one(tmp_path):
    store = ObjectPayloads.open(f"file://{tmp_path}/some%20payloads")
    await store.put(DATA, DIGEST)
    assert file_of(tmp_path / "some payloads").read_bytes() == DATA
    assert store._folder == tmp_path / "some payloads"


@pytest.mark.parametrize("place", ["s3://", "nowhere://bucket"])
async def test_a_url_that_leads_nowhere_is_told_in_one_line(place):
    with pytest.raises(ConfigError) as refused:
        ObjectPayloads.open(place)
    assert "\n" not in str(refused.value)


async def test_bytes_are_on_disk_before_they_count(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync

    def noting(handle):
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        sync(handle)

    monkeypatch.setattr(module.os, "fsync", noting)
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    assert synced[0] == str(file_of(tmp_path))
    assert str(tmp_path) in synced


async def test_a_place_is_a_folder_or_a_url(tmp_path):
    assert isinstance(ObjectPayloads.open("memory:///")._store, MemoryStore)
    for place in ("gopher://x/y", tmp_path / "file" / "below"):
        (tmp_path / "file").touch()
        with pytest.raises(ConfigError, match="cannot keep payloads"):
            ObjectPayloads.open(place)


async def test_only_a_digest_names_a_payload(tmp_path):
    with pytest.raises(StoreError, match="named by its sha256"):
        await ObjectPayloads.open(tmp_path).put(b"x", "sha256:../x")


async def test_a_store_that_fails_is_told_in_our_words(tmp_path):
    store = ObjectPayloads.open(tmp_path)
    (tmp_path / "sha256").write_text("in the way")
    with pytest.raises(StoreError, match="cannot keep or read"):
        await store.put(DATA, DIGEST)
