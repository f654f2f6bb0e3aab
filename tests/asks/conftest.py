"""What users asked for, met as they would meet it: through the public door, in bounded time."""

import asyncio
import os
import subprocess
import sys

import pytest

from agenttool import Runtime
from agenttool.codec import to_json
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

BOUND_S = 60


@pytest.fixture
def allow():
    """A rule that lets everything run, for asks about something else."""
    return [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


@pytest.fixture
def records():
    """Give the exported records of a kind, as plain JSON."""

    async def found(runtime, kind):
        every = [to_json(record) async for record in runtime.journal.export()]
        return [record for record in every if record["record_type"] == kind]

    return found


@pytest.fixture
def asked():
    """Start a call that will ask, and give it with its question."""

    async def start(runtime: Runtime, name, arguments, surface=None):
        surface = surface or await runtime.surface()
        before = {question.approval_id for question in await runtime.approvals.list()}
        waiting = asyncio.ensure_future(runtime.call(name, arguments, surface=surface))
        async for _, event in runtime.journal.events():
            found = (event.data or {}).get("approval_id")
            if found is not None and found not in before:
                questions = [each for each in await runtime.approvals.list() if each.approval_id == found]
                if questions:
                    return waiting, questions[0]
        raise AssertionError("nobody was asked")

    return start


@pytest.fixture
def terminal(tmp_path):
    """Run `agenttool` in a folder of its own."""

    def run(*words, given=None):
        return subprocess.run(
            [sys.executable, "-m", "agenttool", *words],
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
            input=given,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )

    run.folder = tmp_path
    return run
