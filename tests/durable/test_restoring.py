"""A copy that was made while calls waited: put in the place of the journal, it is whole, and the waiting calls continue."""

import asyncio
import shutil

from typer.testing import CliRunner

from agenttool.cli.main import app


async def run(*words):
    done = await asyncio.to_thread(CliRunner().invoke, app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


async def test_a_copy_of_a_journal_in_use_takes_its_place_after_a_crash(
    asking, survivor, ended, sound, living, tmp_path
):
    file, copy = tmp_path / "state.db", tmp_path / "copy.db"
    with asking(7) as (child, approval_id):
        await run("backup", copy, "--store", file)
        child.kill()
        child.wait()
    left = [tmp_path / f"state.db-{beside}" for beside in ("wal", "shm")]
    assert all(each.exists() for each in left)
    for each in left:
        each.unlink()
    shutil.copy(copy, file)
    await run("verify", "--store", file)
    async with survivor() as rt:
        await rt.approvals.decide(approval_id, "allow")
        (result,) = await ended(rt)
        assert result.error is None
        assert living.ledger_of(tmp_path) == [("send", result.invocation_id, 7)]
        await sound(rt)
    await run("verify", "--store", file)
