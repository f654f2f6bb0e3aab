"""Bytes in a folder or an object store: whole, true to their name, and for their owner's eyes only."""

import asyncio
import hashlib
import os
import shutil
import stat
import time
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from agenttool import tool
from agenttool.adapters.python.source import declared
from agenttool.codec import digest_of_bytes
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.steps import STEPS
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.ports.facts import Evidence
from agenttool.records import Behavior, RuleSource
from agenttool.runtime import Runtime, World
from agenttool.stores import payloads as module
from agenttool.stores.payloads import REFRESH_S, ObjectPayloads, copy_folder, digests_in, flaw_of, is_there
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.world import SystemClock, UniqueIds

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


@pytest.mark.parametrize("has_payloads", [False, True])
async def test_only_their_owner_can_read_payloads_in_a_folder_that_was_there_before(tmp_path, has_payloads):
    folder = tmp_path / "payloads"
    (folder / "sha256" if has_payloads else folder).mkdir(parents=True)
    for each in (folder, folder / "sha256"):
        if each.exists():
            each.chmod(0o755)
    await ObjectPayloads.open(folder).put(DATA, DIGEST)
    ways = [each for each in (file_of(folder), *file_of(folder).parents) if each.is_relative_to(folder)]
    assert any(each.stat().st_mode & 0o077 == 0 for each in ways)


async def test_a_place_that_is_gone_is_reported_as_a_store_error(tmp_path):
    store = ObjectPayloads.open(tmp_path / "payloads")
    shutil.rmtree(tmp_path / "payloads")
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


async def test_bytes_that_are_put_while_old_ones_are_deleted_stay(tmp_path, monkeypatch):
    store = ObjectPayloads.open(tmp_path)
    await store.put(DATA, DIGEST)
    old = time.time() - 30 * DAY
    os.utime(file_of(tmp_path), (old, old))
    listed = [next(store._store.list(prefix="sha256"))]

    class Listed:
        """A listing that was made before they were put again."""

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
async def test_a_url_that_leads_nowhere_is_reported_in_one_line(place):
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
        with pytest.raises(ConfigError, match="cannot store payloads"):
            ObjectPayloads.open(place)


async def test_only_a_digest_names_a_payload(tmp_path):
    with pytest.raises(StoreError, match="named by its sha256"):
        await ObjectPayloads.open(tmp_path).put(b"x", "sha256:../x")


async def test_a_store_that_fails_is_reported_as_a_store_error(tmp_path):
    store = ObjectPayloads.open(tmp_path)
    (tmp_path / "sha256").rmdir()
    (tmp_path / "sha256").write_text("in the way")
    with pytest.raises(StoreError, match="cannot write or read"):
        await store.put(DATA, DIGEST)


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


def test_a_place_that_cannot_be_written_is_reported(source, tmp_path):
    (tmp_path / "copy").write_text("a file")
    with pytest.raises(StoreError, match="cannot copy the payloads"):
        copy_folder(source, tmp_path / "copy")


ALLOW = RuleBook([Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))])


@tool(max_inline_chars=50)
async def dump(lines: int) -> str:
    """Return a lot."""
    return "\n".join("x" * 40 for _ in range(lines))


async def a_large_result(folder):
    """Make a call whose bytes go to the folder, through a runtime that keeps its journal in a file."""
    store = SqliteStore.open(folder / "state.db", steps=STEPS)
    payloads = ObjectPayloads.open(folder / "payloads")
    world = World(
        clock=SystemClock(),
        ids=UniqueIds(),
        log=store.log,
        payloads=payloads,
        open_calls=store.open_calls,
        documents=store.documents,
    )
    async with Runtime(world, tools=[declared(dump)], policy=Policy(book=ALLOW)) as runtime:
        result = await runtime.call("dump", {"lines": 300}, surface=await runtime.surface())
    await store.log.settle()
    return store, payloads, result


async def flaws(store, payloads):
    placed = [(position, fact) for position, fact in store.log.read(0, 100) if isinstance(fact.data, Evidence)]
    found = [(position, digest) for position, fact in placed for digest in digests_in(fact.data.records(fact))]
    checked = [
        await flaw_of(payloads, digest, position) for position, digest in found if await is_there(payloads, digest)
    ]
    return [flaw for flaw in checked if flaw is not None]


async def test_changed_bytes_show_where_the_log_speaks_of_them(tmp_path):
    store, payloads, _ = await a_large_result(tmp_path)
    assert await flaws(store, payloads) == []
    (file,) = (each for each in (tmp_path / "payloads").rglob("*") if each.is_file())
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    (flaw,) = await flaws(store, payloads)
    assert flaw.what == "payload"
    assert "was changed" in flaw.found
    facts = dict(store.log.read(0, 100))
    assert facts[flaw.position].step.name == "persisted"
    await store.close()


async def test_the_envelope_digest_and_reason_stay_when_the_bytes_have_expired(tmp_path):
    store, payloads, result = await a_large_result(tmp_path)
    call = result.invocation_id
    assert await payloads.expire(time.time_ns() + 10**9) == 1
    assert await flaws(store, payloads) == []
    await store.close()

    store = SqliteStore.open(tmp_path / "state.db", steps=STEPS)
    world = World(
        clock=SystemClock(),
        ids=UniqueIds(),
        log=store.log,
        payloads=payloads,
        open_calls=store.open_calls,
        documents=store.documents,
    )
    async with Runtime(world) as runtime:
        envelope = await runtime.journal.invocation(call)
        records = [record async for record in runtime.journal.export()]
    (retained,) = (record for record in records if type(record).__name__ == "ResultPersistence")
    assert (envelope.status, envelope.tool_id) == ("succeeded", "tool_local.dump")
    assert retained.persisted_ref.digest.startswith("sha256:")
    assert retained.reason
    assert await payloads.get(retained.persisted_ref.digest) is None
    assert result in records
    await store.close()
