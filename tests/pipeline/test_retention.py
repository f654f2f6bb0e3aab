"""A runtime lets go of what is too old, and of nothing else."""

from datetime import timedelta

import pytest

from agenttool import Runtime, tool
from agenttool.errors import ConfigError
from agenttool.records import ResultPersistence


@tool(read_only=True, open_world=False, risk="low", approval_required=False, max_inline_chars=200)
async def recite(lines: int) -> str:
    """Recite a poem."""
    return "\n".join(f"line {line}" for line in range(lines))


@pytest.mark.parametrize("place", ["memory:", "sqlite:"])
async def test_stored_bytes_go_and_what_is_said_of_them_stays(place, tmp_path):
    store = place if place == "memory:" else f"sqlite:{tmp_path}/state.db"
    async with Runtime.open(store=store, tools=[recite], approve="wait") as rt:
        result = await rt.call("recite", {"lines": 500}, surface=await rt.surface())
        (stored,) = [each async for each in rt.journal.export() if isinstance(each, ResultPersistence)]
        assert (await rt.journal.retain(payloads=timedelta(days=1))).payloads == 0
        assert await rt.journal.payload(stored.persisted_ref) is not None
        assert (await rt.journal.retain(payloads=timedelta(0))).payloads >= 1
        assert await rt.journal.payload(stored.persisted_ref) is None
        assert [each async for each in rt.journal.export() if isinstance(each, ResultPersistence)] == [stored]
        assert (stored.reason, stored.persisted_ref.digest is None) == ("result_exceeded_inline_limit", False)
        assert await rt.journal.result(result.invocation_id) == result


async def test_old_facts_go_from_a_log_on_disk_and_the_chain_goes_on(tmp_path):
    async with Runtime.open(store=f"sqlite:{tmp_path}/state.db", tools=[recite], approve="wait") as rt:
        surface = await rt.surface()
        first = await rt.call("recite", {"lines": 1}, surface=surface)
        gone = await rt.journal.retain(journal=timedelta(0))
        assert gone.facts_up_to == rt._core.journal.log.last > 0
        second = await rt.call("recite", {"lines": 2}, surface=surface)
        assert await rt.journal.result(first.invocation_id) is None
        assert await rt.journal.result(second.invocation_id) == second
        assert list(rt._core.journal.log.verify()) == []


@pytest.mark.parametrize("given", [timedelta(-1), 3])
async def test_what_is_no_length_of_time_is_refused(given):
    async with Runtime.open(tools=[recite], approve="wait") as rt:
        with pytest.raises(ConfigError, match="timedelta"):
            await rt.journal.retain(payloads=given)
