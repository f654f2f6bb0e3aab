"""A store that came with a cloned project: its approved calls and remembered rules have no effect until it is trusted."""

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpcore
import pytest

from agenttool import Allow, Runtime, tool
from agenttool.journal.steps import STEPS
from agenttool.ports.identity import AccessRole
from agenttool.server.grants import AccessGrants, GrantKind
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.stores.store_trust import is_store_trusted, record_created_store

BANK = """
from pathlib import Path
from agenttool import tool

@tool(namespace="bank")
def transfer(amount: int) -> str:
    \"\"\"Transfer money.\"\"\"
    with Path("transfers").open("a") as file:
        file.write(f"{amount}\\n")
    return "done"
"""


def bank(ran):
    """Return the tool; it writes what it did into a list."""

    @tool(namespace="bank")
    def transfer(amount: int) -> str:
        """Transfer money."""
        ran.append(amount)
        return "done"

    return transfer


async def write_store(file):
    """Leave an approved call, an open question, a remembered rule and a key in a store; return the approved call."""
    async with Runtime.open(store=file, tools=[bank([])], approve="wait") as rt:
        first = asyncio.ensure_future(rt.call("bank.transfer", {"amount": 1}))
        async with asyncio.timeout(60):
            while not (asked := await rt.approvals.list()):  # noqa: ASYNC110 -- a call asks in its own time
                await asyncio.sleep(0.01)
        await rt.approvals.decide(asked[0], Allow(), remember=1)
        assert (await first).ok
        calls = [asyncio.ensure_future(rt.call("bank.transfer", {"amount": each})) for each in (5000, 7)]
        async with asyncio.timeout(60):
            while len(await rt.approvals.list()) < len(calls):  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0.01)
        grants = AccessGrants(rt._core.durability.documents, lambda: 0.0)
        await grants.add(GrantKind.KEY, subject="eve", roles=[AccessRole.OPERATOR], tenant="default", created_by="eve")
    await asyncio.gather(*calls, return_exceptions=True)
    async with Runtime.open(store=file, approve="wait") as rt:
        question = min(await rt.approvals.list(), key=lambda each: -each.shown["amount"])
        await rt.approvals.decide(question, Allow())
    return question


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A store of another user, and the question that this user allowed."""
    folder = tmp_path_factory.mktemp("eve")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        return folder / "agenttool.db", asyncio.run(write_store(folder / "agenttool.db"))


@pytest.fixture
def clone(foreign, tmp_path, monkeypatch):
    """The working directory of a user who cloned the store with a project."""
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(foreign[0], folder / "agenttool.db")
    (folder / "cloned_bank.py").write_text(BANK)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    return folder


def transfers(folder):
    file = folder / "transfers"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize(
    "words",
    [
        ("approvals", "--from", "cloned_bank"),
        ("serve", "--port", "0", "--from", "cloned_bank"),
        ("mcp", "--from", "cloned_bank", "--names"),
        ("policy", "rules"),
        ("keys", "list"),
        ("retain", "--payloads", "0"),
    ],
)
def test_a_store_that_the_user_did_not_create_is_not_used(run, clone, words):
    before = (clone / "agenttool.db").read_bytes()
    done = run(*words)
    assert done.exit_code == 2
    assert (
        f"{clone}/agenttool.db was not created here by this user, so it is not used, and it stays as it is."
        " It holds 1 approved call, 1 remembered rule, 1 key, 1 open question; look at it with"
        f" `agenttool log --store agenttool.db`, then type `agenttool trust {clone}/agenttool.db`,"
        " or name the file with --store"
    ) in done.stderr
    assert ((clone / "agenttool.db").read_bytes(), transfers(clone)) == (before, [])
    assert len(run("log", "--json").stdout.splitlines()) == 3
    assert "--store" not in run("status").stdout  # a suggested command must not agree in place of the user


def test_trust_lists_what_the_store_holds_and_then_its_calls_run(run, foreign, clone):
    done = run("trust", "--yes")
    lines = done.stdout.splitlines()
    question = foreign[1]
    assert lines[0] == f"{clone}/agenttool.db is not trusted. It would"
    assert lines[1] == f"  resume     bank.transfer, which needs no answer any more ({question.invocation_id})"
    assert "  allow      calls with tool=['bank.transfer'] argument={'/amount': {'equals': 1}} (remembered" in lines[2]
    assert lines[3].startswith("  admit      requests with the key ")
    assert lines[4].startswith("  ask        about bank.transfer (inv_")
    assert lines[5] == f"trusted {clone}/agenttool.db"
    assert run("approvals", "--from", "cloned_bank").exit_code == 0
    assert transfers(clone) == ["5000"]
    assert run("trust", "--revoke", clone).stdout == f"revoked {clone}/agenttool.db\n"
    assert run("approvals", "--from", "cloned_bank").exit_code == 2


def test_a_store_that_the_user_names_needs_no_trust(run, clone):
    assert run("approvals", "--from", "cloned_bank", "--store", "agenttool.db").exit_code == 0
    assert transfers(clone) == ["5000"]


async def test_a_program_that_names_a_store_resumes_its_calls(foreign, clone):
    ran = []
    async with Runtime.open(store="agenttool.db", tools=[bank(ran)], approve="wait") as rt, asyncio.timeout(60):
        while await rt.journal.result(foreign[1].invocation_id) is None:
            await rt.calls.recover()
            await asyncio.sleep(0.01)
    assert ran == [5000]


def test_a_store_that_a_process_of_the_user_created_is_used_unasked_at_its_place_only(run, foreign, clone):
    (clone / "agenttool.db").unlink()
    shutil.rmtree(clone / "agenttool.db-payloads", ignore_errors=True)
    asyncio.run(write_store(clone / "agenttool.db"))
    assert run("approvals", "--from", "cloned_bank").exit_code == 0
    assert transfers(clone) == ["5000"]
    (listed,) = map(json.loads, run("trust", "--list", "--json").stdout.splitlines())
    assert (listed["file"], listed["state"]) == (str(clone / "agenttool.db"), "trusted")
    shutil.copy(foreign[0], clone / "agenttool.db")
    assert "changed" in run("trust", "--list").stdout
    assert run("approvals").exit_code == 2


def test_an_id_that_leaked_does_not_help_at_another_place(run, clone, monkeypatch):
    assert run("trust", "--yes").exit_code == 0
    other = clone.parent / "other"
    other.mkdir()
    shutil.copy(clone / "agenttool.db", other)
    monkeypatch.chdir(other)
    assert "was not created here by this user" in run("approvals").stderr


def test_the_store_of_a_tenant_needs_trust_like_the_default_one(run, running, clone):
    (clone / "agenttool.db").rename(clone / "agenttool.eve.db")
    assert run("policy", "rules").exit_code == 0
    key = json.loads(run("keys", "add", "eve", "--role", "approver", "--tenant", "eve", "--json").stdout)["key"]
    with running(clone, ["-m", "agenttool", "serve", "--port", "0", "--json"]) as (child, line):

        def ask():
            asked = httpcore.request("GET", f"{line['url']}/v1/approvals", headers={"authorization": f"Bearer {key}"})
            return asked.status, json.loads(asked.content)

        status, problem = ask()
        assert (status, problem["detail"]) == (
            503,
            "the store of this tenant is not trusted; the log of the server says what to do",
        )
        assert run("trust", "--yes").exit_code == 0
        assert ask()[0] == 200
        child.terminate()
        assert f"{clone}/agenttool.eve.db was not created here by this user" in child.communicate(timeout=60)[1]


def test_a_copy_beside_the_store_does_not_need_trust(run, clone):
    assert run("trust", "--yes").exit_code == 0
    assert run("backup", "agenttool.copy.db").exit_code == 0
    assert run("approvals", "--json").exit_code == 0


def test_a_store_behind_a_link_has_its_other_files_beside_the_target(run, clone):
    (clone / "agenttool.db").unlink()
    (clone / "volume").mkdir()
    (clone / "agenttool.db").symlink_to("volume/calls.db")
    for words in (("keys", "add", "ada"), ("keys", "list"), ("keys", "list", "--store", "volume/calls.db")):
        assert run(*words).exit_code == 0
    assert {each.name for each in (clone / "volume").iterdir()} == {"calls.db", "calls.db-payloads"}
    assert (clone / "volume/calls.db").stat().st_mode & 0o777 == 0o600


def test_a_store_that_is_just_being_created_is_used_by_other_processes(clone):
    file = clone / "new" / "agenttool.db"
    file.parent.mkdir()
    with ThreadPoolExecutor() as threads:
        for _ in range(20):
            creating = threads.submit(
                lambda: SqliteStore.open(file, steps=STEPS, on_create=partial(record_created_store, file))
            )
            while not creating.done():
                assert is_store_trusted(file)
            asyncio.run(creating.result().close())
            assert is_store_trusted(file)
            for each in file.parent.iterdir():
                each.unlink()


def test_trusted_settings_that_name_the_store_are_consent_and_trust_lists_both(run, clone):
    (clone / "agenttool.toml").write_text('[store]\nurl = "sqlite:agenttool.db"\n')
    shown = [json.loads(each) for each in run("trust", "--yes", "--json").stdout.splitlines()]
    assert [each["file"] for each in shown] == [str(clone / "agenttool.toml"), str(clone / "agenttool.db")]
    assert [each["verb"] for each in shown[1]["would"]] == ["resume", "allow", "admit", "ask"]
    assert run("trust", "--revoke", clone / "agenttool.db").exit_code == 0
    assert run("approvals", "--from", "cloned_bank").exit_code == 0
    assert transfers(clone) == ["5000"]


def test_a_store_that_settings_name_is_trusted_with_them_and_its_effects_are_theirs(run, clone):
    (clone / "agenttool.db").rename(clone / "calls.db")
    (clone / "agenttool.toml").write_text('[store]\nurl = "sqlite:calls.db"\n')
    (shown,) = [json.loads(each) for each in run("trust", "--yes", "--json").stdout.splitlines()]
    assert shown["file"] == str(clone / "agenttool.toml")
    assert [each["verb"] for each in shown["would"]] == ["store", "resume", "allow", "admit", "ask"]
    assert run("approvals", "--from", "cloned_bank").exit_code == 0
    assert "is not trusted" not in run("trust").stdout


def test_a_user_folder_that_cannot_be_written_costs_only_the_record(run, clone, monkeypatch, caplog):
    (clone / "agenttool.db").unlink()
    (clone / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(clone / "file"))
    asyncio.run(write_store(clone / "agenttool.db"))
    assert "name it with --settings or --store" in caplog.text
    assert "name the file with --store" in run("approvals").stderr
    assert run("approvals", "--store", "agenttool.db", "--json").exit_code == 0
