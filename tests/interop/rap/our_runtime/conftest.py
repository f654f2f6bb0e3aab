"""Our governed runtime over the provider written in Node: in this process, or in one that can be killed."""

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agenttool import Runtime
from agenttool.adapters.rap.settings import RapServer
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

HERE = Path(__file__).parent


@pytest.fixture
def governed(node_provider, tmp_path):
    """Start the Node provider, and open our runtime over it in the thread `s`; everything is allowed to run."""
    everything = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))

    @asynccontextmanager
    async def opened(*options, path="", provider=None, beside=(), **settings):
        started = provider or node_provider(*options)
        here = {"allow": ("127.0.0.0/8",), "attempts": 5, **settings}  # this provider remembers call ids
        others = [RapServer(name=f"other{n}", url=url, **here) for n, url in enumerate(beside)]
        sources = [RapServer(name="greenhouse", url=started.url + path, **here), *others]
        store = f"sqlite:{tmp_path}/state.db"
        async with Runtime.open(store=store, rules=[everything], sources=sources, thread="s") as runtime:
            yield started, runtime

    return opened


@pytest.fixture
def our_runtime(launch, tmp_path):
    """Start our runtime as a process over a provider; all of one test share one store."""

    def start(provider, port=0):
        return launch(sys.executable, HERE / "killable.py", provider.url, f"sqlite:{tmp_path}/state.db", port)

    return start
