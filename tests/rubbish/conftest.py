"""Hostile and malformed inputs: every call ends in an explained result."""

import io

import pytest

from agenttool import Runtime
from agenttool.codec import write
from agenttool.conformance.validate.validation import Validation
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

ALLOW = (Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",)),)


async def findings_of(runtime):
    """Hold everything a runtime has recorded to the validator; rubbish must not spoil the records."""
    lines = b"\n".join([write(record) async for record in runtime.journal.export()])
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
    """Wait for the first approval request, and return the open ones."""

    async def wait(runtime):
        async for _, event in runtime.journal.events():
            if event.event_type == "tool.permission.requested" and event.data["prompted"]:
                return await runtime.approvals.list()
        return ()

    return wait


@pytest.fixture
def allow():
    return ALLOW
