"""`agenttool views`: views are printed as data, again when they change, and cannot control the terminal."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest

from agenttool.adapters.rap.threads import View, ViewStore
from agenttool.journal.steps import STEPS
from agenttool.stores.location import open_store

BOUND_S = 60
HOSTILE = {
    "text": "\x1b]0;owned\x07\x1b[2J\u202egnp.exe",
    "html": "<script>alert(1)</script>",
    "markup": "[red]x[/red]",
}


def keep(path, *views):
    """Keep views as a runtime does."""

    async def run():
        stored = open_store(f"sqlite:{path}", STEPS, None)
        for thread, kind, content in views:
            assert await ViewStore(stored.documents).update(View(thread_id=thread, view_type=kind, content=content))
        await stored.close()

    asyncio.run(run())


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "agenttool.db"


@pytest.mark.requirement("RAP-268")
def test_a_view_cannot_control_the_terminal(run, path):
    keep(path, ("t1", "growth\x1b[31m\nt2  faked", HOSTILE))
    shown = run("views").stdout
    assert not [each for each in shown if not each.isprintable() and each != "\n"]
    assert shown.startswith("t1  growth\\x1b[31m t2 faked\n")
    assert "<script>alert(1)</script>" in shown
    assert "[red]x[/red]" in shown


@pytest.mark.requirement("RAP-268")
def test_only_the_named_types_are_shown(run, path):
    keep(path, ("t1", "growth", {"leaves": 2}), ("t1", "weather", {"sun": 1}), ("t2", "growth", {"leaves": 3}))
    printed = [json.loads(line) for line in run("views", "growth", "--thread", "t1", "--json").stdout.splitlines()]
    assert printed == [{"thread_id": "t1", "view_type": "growth", "content": {"leaves": 2}}]
    assert "weather" not in run("views", "growth").stdout
    nothing = run("views", "soil")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "there are no views\n")
    assert run("views", "soil", "--json").output == ""


@pytest.mark.slow
@pytest.mark.requirement("RAP-268")
def test_a_changed_view_is_printed_again_and_an_emptied_one_is_removed(path):
    keep(path, ("t1", "growth", {"leaves": 2}))
    words = [sys.executable, "-m", "agenttool", "views", "--follow", "--json"]
    with subprocess.Popen(words, cwd=path.parent, stdout=subprocess.PIPE, text=True) as child:
        watchdog = threading.Timer(BOUND_S, child.kill)
        watchdog.start()
        try:
            contents = []
            for change in ({"leaves": 3}, {}, None):
                contents.append(json.loads(child.stdout.readline())["content"])
                if change is not None:
                    keep(path, ("t1", "growth", change))
        finally:
            watchdog.cancel()
            child.kill()
    assert contents == [{"leaves": 2}, {"leaves": 3}, {}]


def test_a_missing_journal_is_not_created_for_views(run, path):
    outcome = run("views")
    assert (outcome.exit_code, path.exists()) == (2, False)
    assert "there is no journal" in outcome.output
