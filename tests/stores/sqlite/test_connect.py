"""The file is for its owner's eyes only, and promises what was asked for."""

import asyncio
import shutil
import stat
import subprocess
import sys

import pytest

from agenttool.errors import StoreError


async def test_only_its_owner_can_read_the_file_and_those_beside_it(path, open_store, write):
    store = open_store()
    await write(store, 1)
    beside = sorted(path.parent.glob("state.db*"))
    assert len(beside) == 3
    assert [stat.S_IMODE(each.stat().st_mode) for each in beside] == [0o600] * 3
    await store.close()
    assert sorted(path.parent.glob("state.db*")) == [path]


async def test_an_empty_file_that_others_can_read_becomes_private(path, open_store, write):
    path.touch(mode=0o644)
    store = open_store()
    await write(store, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await store.close()


async def test_a_commit_waits_for_the_disk(open_store, write):
    store = open_store()
    await write(store, 1)
    connection = store.log.group._writer._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


async def test_the_error_of_a_damaged_page_has_the_remedy(path, open_store, write):
    store = open_store()
    await write(store, *range(1, 200))
    await store.close()
    damaged = bytearray(path.read_bytes())
    middle = len(damaged) // 2 // 4096 * 4096
    damaged[middle : middle + 4096] = bytes(4096)
    path.write_bytes(damaged)
    store = open_store()
    with pytest.raises(StoreError, match="newest backup"):
        list(store.log.verify())
    await store.close()


AT_NIGHT = """
mount -t tmpfs -o size=400k tmpfs $1 && cp $2 $1/state.db && cd $1 || exit 9
{break}
for words in verify "log --limit 1" approvals; do $3 -m agenttool $words --store state.db; echo "status $?"; done
"""


def at_night(folder, path, breaking):
    """Run commands on a copy of the file, on a small disk that something is wrong with."""
    apart = ["unshare", "--mount", "--map-root-user"]
    script = ["sh", "-c", AT_NIGHT.format(**{"break": breaking}), "sh", str(folder), str(path), sys.executable]
    if shutil.which("unshare") is None:
        pytest.skip("a small file system of its own needs unshare")
    done = subprocess.run([*apart, *script], capture_output=True, text=True, check=False)
    if "status" not in done.stdout:
        pytest.skip(f"this system lets nobody mount a small file system: {done.stderr}")
    return [line for line in done.stdout.splitlines() if line.startswith("status")], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("breaking", "message"),
    [
        ("head -c 400k /dev/zero > filler 2>/dev/null", "its disk is full: free some space, and try again"),
        ("mount -o remount,ro $1", "nothing can be written there: check the permissions"),
    ],
)
async def test_a_file_can_be_read_where_nothing_can_be_written(path, open_store, write, tmp_path, breaking, message):
    store = open_store()
    await write(store, 1)
    await store.close()
    (folder := tmp_path / "small").mkdir()
    ended, complained = await asyncio.to_thread(at_night, folder, path, breaking)
    assert ended == ["status 0", "status 0", "status 2"]
    assert message in complained
