"""Coroutine tests run in a loop of their own, and end within a bound."""

import asyncio
import inspect

import pytest

BOUND_S = 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded():
        async with asyncio.timeout(BOUND_S):
            await pyfuncitem.obj(**arguments)

    asyncio.run(bounded())
    return True
