import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from agenttool.records import InterruptBehavior
from agenttool.scheduler.drive import Drive, Stopped, stops_on_interrupt

LEFT = Stopped(abandoned=True)


def pass_on(drive):
    """Raise the caller's own cancellation, as a caller does once its result is recorded."""
    if drive.caller_canceled is not None:
        raise drive.caller_canceled


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def untouched():
    return asyncio.current_task().cancelling() == 0


async def for_ever():
    await asyncio.get_running_loop().create_future()


def test_a_tool_that_never_waits_gives_its_value(play, drive):
    async def tool():
        return 42

    assert play(drive.run(tool())) == 42
    drive.stop()
    assert not drive.stop_asked


def test_a_tool_that_raises_raises(play, drive):
    async def tool():
        await asyncio.sleep(0)
        raise LookupError("no such row")

    with pytest.raises(LookupError, match="no such row"):
        play(drive.run(tool()))


def test_a_tool_runs_in_its_callers_own_task(play, drive):
    async def tool():
        await asyncio.sleep(0)
        return asyncio.current_task()

    async def caller():
        return await drive.run(tool()) is asyncio.current_task()

    assert play(caller())


def test_a_tool_that_lets_the_cancellation_pass_was_stopped_and_the_caller_continues(play, drive, glass):
    cleaned = []

    async def tool():
        try:
            await for_ever()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async def caller():
        ended = await drive.run(tool())
        await turns()
        return ended, untouched(), drive.caller_canceled

    assert play(caller(), lambda _: drive.stop()) == (Stopped(), True, None)
    assert cleaned == ["up"]
    assert drive.stop_asked
    assert glass.running == []


def test_a_tool_that_ends_all_the_same_ends_with_its_true_outcome(play, drive):
    async def tool():
        try:
            await for_ever()
        except asyncio.CancelledError:
            return "written anyway"

    async def caller():
        return await drive.run(tool()), untouched()

    assert play(caller(), lambda _: drive.stop()) == ("written anyway", True)
    assert drive.stop_asked


def test_a_tool_that_answers_with_an_error_of_its_own_raises_it(play, drive):
    async def tool():
        try:
            await for_ever()
        except asyncio.CancelledError:
            raise ConnectionError("half sent") from None

    async def caller():
        with pytest.raises(ConnectionError):
            await drive.run(tool())
        await turns()
        return untouched()

    assert play(caller(), lambda _: drive.stop())


def test_a_tool_that_continues_is_left_behind_when_patience_runs_out(play, drive, glass):
    seen = []

    async def tool():
        while True:
            try:
                await for_ever()
            except asyncio.CancelledError:
                seen.append("asked")
            except GeneratorExit:
                seen.append("closed")
                raise

    async def caller():
        ended = await drive.run(tool())
        await turns()
        return ended, untouched()

    assert play(caller(), lambda _: drive.stop(), lambda _: glass.run_out()) == (LEFT, True)
    assert seen == ["asked", "closed"]
    assert [grain.seconds for grain in glass.granted] == [1]


def test_a_tool_that_will_not_even_be_closed_is_left_behind(play, drive, glass):
    released = False

    async def tool():
        while not released:
            with suppress(BaseException):
                await for_ever()

    stubborn = tool()
    assert play(drive.run(stubborn), lambda _: drive.stop(), lambda _: glass.run_out()) == LEFT
    released = True
    stubborn.close()


@pytest.mark.parametrize("steps", [0, 2])
def test_a_tool_may_stop_itself_and_learns_of_it_when_it_next_waits(play, drive, steps):
    async def tool():
        await turns(steps)
        drive.stop()
        received = "not yet"
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return received

    async def caller():
        ended = await drive.run(tool())
        await turns()
        return ended, untouched()

    assert play(caller()) == ("not yet", True)


def test_a_tool_that_stops_itself_and_never_waits_again_leaves_nothing_behind(play, drive):
    async def tool():
        await asyncio.sleep(0)
        drive.stop()
        return "done"

    async def caller():
        ended = await drive.run(tool())
        await turns()
        return ended, untouched()

    assert play(caller()) == ("done", True)


def test_a_run_that_was_stopped_before_it_began_does_not_begin(play, drive):
    async def tool():
        raise AssertionError("it began")

    drive.stop()
    assert play(drive.run(tool())) == Stopped()


def test_timeouts_and_task_groups_of_the_tool_are_its_own(play, drive, glass):
    async def failing():
        raise LookupError

    async def tool():
        caught = []
        try:
            async with asyncio.timeout(0):
                await for_ever()
        except TimeoutError:
            caught.append("timeout")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(failing())
                await for_ever()
        except* LookupError:
            caught.append("group")
        await turns()
        return caught, asyncio.current_task().cancelling()

    async def caller():
        return await drive.run(tool()), untouched(), drive.caller_canceled

    assert play(caller()) == ((["timeout", "group"], 0), True, None)
    assert glass.running == []


def test_a_tool_that_continues_after_a_timeout_of_its_own_has_all_the_time_it_needs(play, drive, glass):
    waiting = []

    async def tool():
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await for_ever()
        waits = asyncio.create_task(turns(5))
        waits.add_done_callback(lambda _: waiting.append(list(glass.running)))
        await waits
        return "fell back"

    assert play(drive.run(tool())) == "fell back"
    assert [grain.seconds for grain in glass.granted] == [10]
    assert waiting == [[]]


def test_a_stop_inside_a_timeout_of_the_tool_is_not_mistaken_for_it(play, drive):
    async def tool():
        async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
            group.create_task(for_ever())

    assert play(drive.run(tool()), lambda _: drive.stop()) == Stopped()


def test_a_tool_that_cancels_something_of_its_own_is_not_the_callers_business(play, drive):
    async def tool():
        something = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(something.cancel)
        await something

    async def caller():
        return await drive.run(tool()), drive.stop_asked, drive.caller_canceled

    assert play(caller()) == (Stopped(), False, None)


def test_a_caller_that_is_canceled_may_write_a_result_before_it_goes(play, drive):
    written = []

    async def caller():
        ended = await drive.run(for_ever())
        await turns()
        written.append(ended)
        pass_on(drive)
        written.append("went on")

    with pytest.raises(asyncio.CancelledError, match="enough"):
        play(caller(), lambda task: task.cancel("enough"))
    assert written == [Stopped()]
    assert not drive.stop_asked


def test_a_callers_cancellation_is_passed_on_even_if_the_tool_swallowed_it(play, drive):
    async def tool():
        try:
            await for_ever()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "saved"

    async def caller():
        assert await drive.run(tool()) == "saved"
        pass_on(drive)

    with pytest.raises(asyncio.CancelledError):
        play(caller(), lambda task: task.cancel())


def test_a_callers_own_timeout_is_seen_as_such_outside(play, drive):
    async def caller():
        try:
            async with asyncio.timeout(0):
                await drive.run(for_ever())
                pass_on(drive)
        except TimeoutError:
            return untouched()

    assert play(caller()) is True


def test_a_canceled_caller_does_not_wait_for_a_deaf_tool_for_ever(play, drive, glass):
    async def tool():
        while True:
            with suppress(asyncio.CancelledError):
                await for_ever()

    async def caller():
        assert await drive.run(tool()) == LEFT
        pass_on(drive)

    with pytest.raises(asyncio.CancelledError):
        play(caller(), lambda task: task.cancel(), lambda _: glass.run_out())
    assert [grain.seconds for grain in glass.granted] == [10]


def test_stopped_and_canceled_at_once_the_callers_part_remains(play, drive):
    async def caller():
        ended = await drive.run(for_ever())
        return ended, asyncio.current_task().cancelling(), drive.caller_canceled is not None

    def both(task):
        drive.stop()
        task.cancel()

    assert play(caller(), both) == (Stopped(), 1, True)


def test_a_task_canceled_before_it_called_is_still_canceled(play, drive):
    async def caller():
        asyncio.current_task().cancel()
        assert await drive.run(for_ever()) == Stopped()
        pass_on(drive)

    with pytest.raises(asyncio.CancelledError):
        play(caller())


def test_stopping_a_call_stops_the_call_inside_it_which_may_write_its_own_result_first(play, drive):
    inner = Drive(drive._grace)
    written = []

    async def tool():
        written.append(await inner.run(for_ever()))
        await turns()
        pass_on(inner)

    async def caller():
        return await drive.run(tool()), untouched()

    assert play(caller(), lambda _: drive.stop()) == (Stopped(), True)
    assert written == [Stopped()]


def test_a_caller_that_is_closed_closes_the_tool(drive):
    seen = []

    async def tool():
        try:
            await for_ever()
        except GeneratorExit:
            seen.append("closed")
            raise

    async def main():
        async def caller():
            await drive.run(tool())

        closed = caller()
        closed.send(None)
        closed.close()

    asyncio.run(main())
    assert seen == ["closed"]


def test_a_tool_that_waits_for_a_task_that_will_not_end_is_left_behind(play, drive, glass):
    reported = []

    async def deaf(door):
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                reported.append("deaf")

    async def caller():
        door = asyncio.Event()
        other = asyncio.create_task(deaf(door))

        async def tool():
            await other

        ended = await drive.run(tool())
        alive = not other.done()
        door.set()
        await other
        return ended, alive, untouched()

    assert play(caller(), lambda _: drive.stop(), lambda _: glass.run_out()) == (LEFT, True, True)
    assert reported == ["deaf"]


def test_a_task_that_a_tool_waits_for_is_canceled_first_and_its_end_is_the_tools(play, drive):
    async def tool():
        other = asyncio.create_task(for_ever())
        try:
            await other
        finally:
            assert other.cancelled()

    assert play(drive.run(tool()), lambda _: drive.stop()) == Stopped()


def test_a_failed_run_leaves_no_circle_of_references(play, drive):
    def bad_news():
        loop = asyncio.get_running_loop()
        news = loop.create_future()
        loop.call_soon(news.set_exception, LookupError())
        return news

    async def tool():
        await bad_news()

    class Witness:
        """Goes with the frame that knows it."""

    async def known_tool(witness):
        await tool()

    async def caller():
        gc.disable()
        witness = Witness()
        gone = weakref.ref(witness)
        with suppress(LookupError):
            await drive.run(known_tool(witness))
        del witness
        await turns()
        gc.enable()
        return gone()

    assert play(caller()) is None, (
        "something still holds the frame of the tool, in a circle that only the collector ends"
    )


CANCEL, BLOCK = InterruptBehavior.CANCEL, InterruptBehavior.BLOCK


@pytest.mark.parametrize(
    ("tool", "policy", "stops"),
    [(CANCEL, None, True), (CANCEL, CANCEL, True), (CANCEL, BLOCK, False), (BLOCK, CANCEL, False), (None, None, False)],
)
def test_an_interruption_stops_a_call_if_its_tool_says_so_and_no_policy_objects(tool, policy, stops):
    assert stops_on_interrupt(tool, policy) is stops
