"""What tests of driven tools share: patience that the test lets run out, and a caller with interference."""

import asyncio

import pytest

from agenttool.scheduler.drive import Drive, GracePeriod


class Hourglass:
    """Counts no time: the test says when patience runs out."""

    def __init__(self):
        self.granted = []

    def call_later(self, seconds, callback):
        grain = Grain(seconds, callback)
        self.granted.append(grain)
        return grain

    def run_out(self):
        self.granted[-1].callback()

    @property
    def running(self):
        return [grain.seconds for grain in self.granted if not grain.canceled]


class Grain:
    def __init__(self, seconds, callback):
        self.seconds, self.callback, self.canceled = seconds, callback, False

    def cancel(self):
        self.canceled = True


@pytest.fixture
def glass():
    return Hourglass()


@pytest.fixture
def drive(glass):
    return Drive(GracePeriod(call_later=glass.call_later, after_stop=1, after_caller=10))


@pytest.fixture
def play():
    return _play


async def _turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def _play(caller, *interference):
    """Run a caller as a task, and between its steps whatever else happens."""

    async def waiting():
        return await caller

    async def main():
        task = asyncio.create_task(waiting())
        for happen in interference:
            await _turns()
            happen(task)
        await asyncio.wait([task], timeout=60)
        return task

    task = asyncio.run(main())
    return task.result()
