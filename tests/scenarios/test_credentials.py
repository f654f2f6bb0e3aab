import asyncio
import copy
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from starting import begin

from agenttool import Context, CredentialMissing, FetchedCredential, Runtime, Secret, ToolResult, sync, tool
from agenttool.codec import to_json, write
from agenttool.errors import ConfigError
from agenttool.records import UNSET, ToolEvent

TOKEN = "ghp_0123456789abcdef"  # noqa: S105 -- not a real one
OTHER = "ghp_fedcba9876543210"
PYTHON = sys.executable


@tool(read_only=True, credentials=["github"])
async def whoami(ctx: Context) -> str:
    """Return the token's length and the leased names."""
    return f"{len(ctx.credentials['github'].value)} {[*ctx.credentials]} {ctx.credentials['github']}"


@tool(read_only=True, credentials=["github"])
async def leak(ctx: Context) -> str:
    """Return the token in clear."""
    token = ctx.credentials["github"].reveal()
    ctx.progress(f"progress {token}")
    ctx.log(f"log {token}", level=logging.WARNING)
    logging.getLogger("tool").debug("holds %s", ctx.credentials)
    return f"token={token}"


@tool(read_only=True, credentials=["github"])
def crash(ctx: Context) -> str:
    """Raise an error with the token in its message."""
    raise ValueError(f"bad token {ctx.credentials['github'].value}")


@tool(read_only=True)
async def plain(ctx: Context) -> list[str]:
    """Return the leased names."""
    return [*ctx.credentials]


TOOLS = [whoami, leak, crash, plain]


def settings(folder: Path, text: str) -> Path:
    file = folder / "agenttool.toml"
    file.write_text(text)
    return file


def is_ok(result: ToolResult) -> bool:
    return result.error is None


def text(result: ToolResult) -> str:
    return result.content[0].text


def value(result: ToolResult):
    return result.content[0].text if result.structured_content is UNSET else result.structured_content


async def everything(rt: Runtime) -> str:
    return "\n".join([write(record).decode() async for record in rt.journal.export()])


async def events(rt: Runtime) -> list[ToolEvent]:
    return [record async for record in rt.journal.export() if isinstance(record, ToolEvent)]


async def test_a_tool_gets_the_credential_that_it_declares_and_no_other():
    async with Runtime.open(tools=TOOLS, credentials={"github": TOKEN, "mail": OTHER}) as rt:
        result = await rt.call("whoami", {})
        assert value(result) == f"{len(TOKEN)} ['github'] Secret('github')"
        assert value(await rt.call("plain", {})) == []


async def test_the_value_is_masked_in_results_errors_progress_tracebacks_logs_and_records(caplog):
    caplog.set_level(logging.DEBUG)
    async with Runtime.open(tools=TOOLS, credentials={"github": TOKEN}) as rt:
        leaked, crashed = await rt.call("leak", {}), await rt.call("crash", {})
        assert text(leaked) == "token=[redacted]"
        assert "bad token [redacted]" in crashed.error.message
        recorded = await everything(rt)
    assert "log [redacted]" in caplog.text
    assert TOKEN not in recorded + caplog.text + repr(leaked) + repr(crashed)


async def test_the_journal_names_the_leased_credential_of_each_call():
    async with Runtime.open(tools=TOOLS, credentials={"github": TOKEN}) as rt:
        result = await rt.call("whoami", {})
        await rt.call("plain", {})
        data = [
            (event.invocation_id, event.data)
            for event in await events(rt)
            if isinstance(event.data, dict) and "credentials" in event.data
        ]
    assert [(call, names["credentials"]) for call, names in data] == [(result.invocation_id, ["github"])]


async def test_a_lease_ends_with_its_call():
    stored: list[Secret] = []

    @tool(read_only=True, credentials=["github"])
    def keep(ctx: Context) -> int:
        stored.append(ctx.credentials["github"])
        return len(stored[-1].value)

    async with Runtime.open(tools=[keep], credentials={"github": TOKEN}) as rt:
        assert value(await rt.call("keep", {})) == len(TOKEN)
    with pytest.raises(CredentialMissing, match="ended with its call"):
        _ = stored[0].value
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(stored[0])
    assert (str(stored[0]), f"{stored[0]}", repr(stored[0])) == ("Secret('github')",) * 3


async def test_an_undeclared_credential_raises_with_the_remedy():
    @tool(read_only=True, credentials=["github"])
    async def wrong(ctx: Context) -> str:
        return ctx.credentials["mail"].value

    async with Runtime.open(tools=[wrong], credentials={"github": TOKEN, "mail": OTHER}) as rt:
        error = (await rt.call("wrong", {})).error
    assert "declare it with @tool(credentials=['mail'])" in error.message


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_is_called_when_a_call_needs_the_credential_and_its_value_is_cached(is_async):
    fetched: list[str] = []

    def fetch() -> str:
        fetched.append("now")
        return TOKEN

    async def fetch_later() -> str:
        await asyncio.sleep(0)
        return fetch()

    async with Runtime.open(tools=TOOLS, credentials={"github": fetch_later if is_async else fetch}) as rt:
        assert fetched == []
        results = await asyncio.gather(*(rt.call("whoami", {}) for _ in range(5)))
        assert all(map(is_ok, results))
        assert len(fetched) == 1


async def test_each_actor_has_its_own_and_an_actor_without_one_is_refused_before_approval(tmp_path, monkeypatch):
    monkeypatch.setenv("ADA", TOKEN)

    @tool(credentials=["github"])
    async def push(ctx: Context) -> str:
        return ctx.credentials["github"].value[-4:]

    text = '[credentials.github.actors]\n"user:ada" = {env = "ADA"}\n'
    async with Runtime.open(tools=[push, whoami], config=settings(tmp_path, text), approve="wait") as rt:
        assert is_ok(await rt.call("whoami", {}, actor_ref="user:ada"))
        for actor, reason in (("user:bob", "the actor 'user:bob' has none"), (None, "the call names none")):
            refused = await rt.call("push", {}, actor_ref=actor)
            assert refused.error.error_class == "credential_missing"
            assert reason in refused.error.message
            assert f"({tmp_path}/agenttool.toml:1)" in refused.error.message
        asked = [each for each in await events(rt) if "permission" in each.event_type]
    assert {each.data.get("prompted") for each in asked if isinstance(each.data, dict)} <= {False, None}


async def test_a_function_that_takes_the_actor_is_asked_for_each():
    tokens = {"user:ada": TOKEN, "user:eve": OTHER}

    async with Runtime.open(tools=TOOLS, credentials={"github": tokens.get}) as rt:
        shown = [await rt.call("leak", {}, actor_ref=actor) for actor in ("user:ada", "user:eve", "user:bob")]
    assert [text(each) for each in shown[:2]] == ["token=[redacted]"] * 2
    assert "the actor 'user:bob' has none" in shown[2].error.message


async def test_files_need_mode_0600_and_may_differ_by_actor(tmp_path):
    file = tmp_path / "user:ada"
    file.write_text(TOKEN + "\n")
    file.chmod(0o644)
    config = settings(tmp_path, '[credentials.github]\nfile = "{actor}"\nttl_s = 0\n')
    async with Runtime.open(tools=TOOLS, config=config) as rt:
        refused = await rt.call("whoami", {}, actor_ref="user:ada")
        assert "has the mode 0644" in refused.error.message
        assert f"type `chmod 600 {file}`" in refused.error.message
        file.chmod(0o600)
        assert value(await rt.call("whoami", {}, actor_ref="user:ada")).startswith(f"{len(TOKEN)} ")
        for bad in ("../user:ada", "-x", ".hidden", "a/b"):
            error = (await rt.call("whoami", {}, actor_ref=bad)).error
            assert "cannot stand for {actor}" in error.message


async def test_a_command_runs_without_a_shell_with_a_limited_environment_and_limited_time(tmp_path, monkeypatch):
    monkeypatch.setenv("HIDDEN", OTHER)
    script = "import os,sys; assert 'HIDDEN' not in os.environ; print(sys.argv[1])"
    text = f'[credentials.github]\ntimeout_s = 60\ncommand = ["{PYTHON}", "-c", "{script}", "$(echo) {TOKEN}"]\n'
    async with Runtime.open(tools=TOOLS, config=settings(tmp_path, text)) as rt:
        assert value(await rt.call("whoami", {})).startswith(f"{len(TOKEN) + 8} ")
    for script, reason in (
        (f"print('{TOKEN}'); raise SystemExit(3)", "ended with the exit code 3"),
        ("import time; time.sleep(60)", "was not there after 0.3 s"),
        ("print('x' * 70000)", "more than 65536 characters"),
        ("print('short')", "too few to be masked"),
        ("pass", "it is empty"),
    ):
        timeout_s = 0.3 if "sleep" in script else 60
        text = f'[credentials.github]\ntimeout_s = {timeout_s}\ncommand = ["{PYTHON}", "-c", "{script}"]\n'
        async with Runtime.open(tools=TOOLS, config=settings(tmp_path, text)) as rt:
            error = (await rt.call("whoami", {})).error
        assert error.error_class == "credential_missing"
        assert reason in error.message
        assert TOKEN not in error.message


async def test_a_keyring_is_read_when_the_extra_is_installed_and_named_when_it_is_not(tmp_path, monkeypatch):
    config = settings(tmp_path, '[credentials.github]\nkeyring = {service = "gh", username = "{actor}"}\n')
    monkeypatch.setattr("agenttool.assemble.credentials.find_spec", {}.get)
    async with Runtime.open(tools=TOOLS, config=config) as rt:
        surface = await rt.surface()
    blocked = next(each for each in surface.blocked_tools if "whoami" in each.tool_id)
    assert "pip install 'agenttool[keyring]'" in str(to_json(blocked))
    passwords = {("gh", "ada"): TOKEN}
    monkeypatch.setattr("agenttool.assemble.credentials.find_spec", lambda name: name)
    keyring = SimpleNamespace(get_password=lambda service, user: passwords.get((service, user)))
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    async with Runtime.open(tools=TOOLS, config=config) as rt:
        assert is_ok(await rt.call("whoami", {}, actor_ref="ada"))
        error = (await rt.call("whoami", {}, actor_ref="bob")).error
    assert "type `keyring set gh bob`" in error.message


async def test_a_tool_whose_credential_cannot_be_had_is_absent_with_reason_place_and_remedy(tmp_path):
    config = settings(tmp_path, '\n[credentials.github]\nenv = "NOT_SET_ANYWHERE"\n')
    async with Runtime.open(tools=TOOLS, config=config) as rt:
        surface = await rt.surface()
        result = await rt.call("whoami", {})
    blocked = str(to_json(next(each for each in surface.blocked_tools if "whoami" in each.tool_id)))
    assert "credential_missing" in blocked
    assert "the environment variable 'NOT_SET_ANYWHERE' is not set" in blocked.replace("\\'", "'")
    assert f"({config}:2)" in blocked
    assert not is_ok(result)


async def test_a_nested_call_leases_its_own_credentials_and_the_callers_are_masked_in_it():
    @tool(read_only=True, credentials=["github"])
    async def outer(ctx: Context) -> str:
        inner = await ctx.call("plain", {})
        echoed = await ctx.call("echo", {"text": ctx.credentials["github"].value})
        return f"{value(inner)} {text(echoed)}"

    @tool(read_only=True)
    async def echo(text: str) -> str:
        return text

    async with Runtime.open(tools=[outer, plain, echo], credentials={"github": TOKEN}) as rt:
        result = await rt.call("outer", {})
        assert text(result) == "[] [redacted]"
        assert TOKEN not in await everything(rt)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'[credentials]\ngithub = "{TOKEN}"\n', "2: github in [credentials] must be a table"),
        (f'[credentials.github]\nvalue = "{TOKEN}"\n', "has no 'value'"),
        (f'[credentials.github]\nenv = ["{TOKEN}"]\n', "env must be a text, got list"),
        ("[credentials.github]\nttl_s = 3\n", "must have one of env, file, keyring, command, actors, got none"),
        ('[credentials.github]\nenv = "A"\nfile = "b"\n', "got env and file"),
        ('[credentials.github]\nenv = "GH_{actor}"\n', "env cannot contain {actor}"),
        ("[credentials.github.actors]\nada = {}\n", "'ada' must have one of env, file, keyring, command"),
    ],
)
async def test_a_wrong_table_is_an_error_at_start_with_its_place_and_without_values(tmp_path, text, reason):
    with pytest.raises(ConfigError) as caught:
        Runtime.open(config=settings(tmp_path, text))
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/agenttool.toml:")
    assert TOKEN not in str(caught.value)


def test_the_synchronous_runtime_leases_credentials_too():
    with sync.open(tools=TOOLS, credentials={"github": lambda: TOKEN}) as rt:
        assert text(rt.call("leak", {})) == "token=[redacted]"


async def test_no_file_of_the_store_contains_a_leased_value(tmp_path, allow):
    @tool(credentials=["github"], idempotent=True, approval_required=False)
    async def outer(ctx: Context) -> str:
        return text(await ctx.call("inner", {})) + ctx.credentials["github"].value

    @tool(idempotent=True, approval_required=False)
    async def inner() -> str:
        held = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        return f"{len(held) > 0} {any(TOKEN.encode() in each for each in held)}"

    store = f"sqlite:{tmp_path}/calls.db"
    async with Runtime.open(store=store, tools=[outer, inner], credentials={"github": TOKEN}, rules=allow) as rt:
        assert text(await rt.call("outer", {})) == "True False[redacted]"
    assert not any(TOKEN.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


async def test_a_value_is_fetched_again_when_its_time_is_over():
    tokens = iter((TOKEN, OTHER))
    seen: list[str] = []

    @tool(read_only=True, credentials=["github"])
    async def use(ctx: Context) -> str:
        seen.append(ctx.credentials["github"].value)
        return seen[-1]

    def fetch() -> FetchedCredential:
        return FetchedCredential(next(tokens), ttl_s=0)

    async with Runtime.open(tools=[use], credentials={"github": fetch}) as rt:
        assert [text(await rt.call("use", {})) for _ in range(2)] == ["[redacted]"] * 2
    assert seen == [TOKEN, OTHER]


async def test_a_call_that_waits_for_its_credential_can_be_canceled():
    asked = asyncio.Event()

    async def never() -> str:
        asked.set()
        return await asyncio.get_running_loop().create_future()

    async with Runtime.open(tools=TOOLS, credentials={"github": never}) as rt:
        known = rt.calls.new_id()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(begin(rt, "whoami", {}, invocation_id=known))
            await asked.wait()
            assert await rt.cancel(known)
        assert (await rt.calls.get(known).result()).error.error_class == "canceled"


async def test_a_call_that_waits_for_its_credential_delays_no_other_call():
    asked, may_return = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        asked.set()
        await may_return.wait()
        return TOKEN

    @tool(credentials=["github"])
    async def change(ctx: Context) -> str:
        """Change something with the credential."""
        return f"changed with {[*ctx.credentials]}"

    @tool
    async def other() -> str:
        """Change something else."""
        return "other"

    rules = [{"behavior": "allow", "tool": "*"}]
    opened = Runtime.open(tools=[change, other], credentials={"github": slow}, rules=rules)
    async with opened as rt, asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        changing = tasks.create_task(rt.call("change", {}))
        await asked.wait()
        assert text(await rt.call("other", {})) == "other"
        assert not changing.done()
        may_return.set()
        assert text(await changing) == "changed with ['github']"


async def test_a_call_that_was_approved_in_another_process_leases_its_credential_there(tmp_path):
    used: list[str] = []

    @tool(credentials=["github"])
    async def push(ctx: Context) -> str:
        used.append(ctx.credentials["github"].value)
        return used[-1]

    options = {"store": f"sqlite:{tmp_path}/calls.db", "tools": [push], "approve": "wait"}
    async with Runtime.open(**options, credentials={"github": TOKEN}) as rt:
        started = await begin(rt, "push", {})
    assert used == []
    async with Runtime.open(**options, credentials={"github": OTHER}) as rt:
        approval = (await rt.approvals.list())[0]
        await rt.approvals.decide(approval.approval_id, "allow")
        assert text(await rt.calls.get(started.invocation_id).result()) == "[redacted]"
    assert used == [OTHER]
