"""Rubbish in, an explained end out: every test here is bounded in time and leaves nothing running behind."""

import asyncio
import gc
import inspect
import io

import pytest

from agenttool import Runtime
from agenttool.codec import write
from agenttool.conformance.validate.run import Validation
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

BOUND_S = 60
ALLOW = (Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",)),)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a coroutine test in a loop of its own; nothing may be left in it, and nothing may have gone unheard."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    unheard = []

    async def bounded():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        async with asyncio.timeout(BOUND_S):
            await pyfuncitem.obj(**arguments)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set(), "tasks were left running"

    asyncio.run(bounded())
    gc.collect(1)
    assert unheard == [], "something failed and nobody was told"
    return True


async def findings_of(runtime):
    """Hold everything a runtime has recorded to the validator; rubbish must not spoil the records."""
    lines = b"\n".join([write(record) async for record in runtime.export()])
    with Validation() as validation:
        found = [*validation.read("export", io.BytesIO(lines)), *validation.conclude()]
    return [each for each in found if each.severity == "error"]


class Once:
    """Calls one tool once, where everything is allowed, and holds what was recorded to the validator."""

    async def __call__(self, tool, arguments, *, name=None, **options):
        declared = getattr(tool, "declared", tool)
        async with Runtime.open(**{"tools": [tool], "rules": ALLOW, **options}) as runtime:
            surface = await runtime.surface()
            result = await runtime.call(declared.declaration.name if name is None else name, arguments, surface=surface)
            assert await findings_of(runtime) == []
        return result


@pytest.fixture
def once():
    return Once()


@pytest.fixture
def sound():
    """Assert that what a runtime recorded passes the validator."""

    async def check(runtime):
        assert await findings_of(runtime) == []

    return check


@pytest.fixture
def asked():
    """Wait until somebody is asked, and give the open questions."""

    async def wait(runtime):
        async for _, event in runtime.events():
            if event.event_type == "tool.permission.requested" and event.data["prompted"]:
                return await runtime.approvals()
        return ()

    return wait


@pytest.fixture
def allow():
    return ALLOW
