"""Asks about which tools there are, who sees them, and what of them."""

from typing import Annotated

import pytest

from agenttool import Internal, Runtime, tool
from agenttool.policy.approvals import Remember
from agenttool.records import Lifecycle
from agenttool.testing.fakes import scripted_tool


def saying(word):
    async def say(job):
        return word

    return say


async def test_ask_01_two_servers_may_offer_one_name_and_neither_wins_in_silence(allow):
    tools = [scripted_tool("search", saying(each), namespace=each) for each in ("github", "jira")]
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        said = [await rt.call(f"{each}.search", {}, surface=surface) for each in ("github", "jira")]
        bare = await rt.call("search", {}, surface=surface)
        ids = [(await rt.journal.invocation(each.invocation_id)).tool_id for each in said]
    assert [each.model_facing_content[0].text for each in said] == ["github", "jira"]
    assert len(set(ids)) == 2
    assert (bare.error.error_class, bare.error.error_code) == ("unknown_tool", "ambiguous_name")
    assert "'github.search', 'jira.search'" in bare.model_facing_content[0].text


async def test_ask_18_every_tool_that_is_not_there_says_why_and_so_does_calling_it(caplog):
    @tool(lifecycle=Lifecycle.REQUIRES_SETUP)
    async def deploy() -> str:
        """Deploy. Not for tests."""
        return "deployed"

    @tool
    async def write() -> str:
        """Write. Not for reading."""
        return "written"

    @tool(read_only=True, open_world=False, requires_user_interaction=True)
    async def poll() -> str:
        """Ask a person. Not for machines."""
        return "asked"

    async with Runtime.open(tools=[deploy, write, poll], mode="read_only", approve="deny") as rt:
        surface = await rt.surface()
        blocked = [(each.name, each.reason, each.would_change) for each in surface.blocked_tools]
        results = [await rt.call(name, {}, surface=surface) for name, _, _ in blocked]
    assert surface.loaded_tools == ()
    assert blocked == [
        ("local.deploy", "setup_required", "finish its setup"),
        ("local.write", "policy_blocked", "leave read-only mode"),
        ("local.poll", "policy_blocked", "run interactively"),
    ]
    assert [(each.error.error_class, each.error.error_code) for each in results] == [
        ("blocked_tool", reason) for _, reason, _ in blocked
    ]
    texts = [each.model_facing_content[0].text for each in results]
    assert all("ask the operator to change that" in each for each in texts)
    assert all(absent.message in text for absent, text in zip(surface.blocked_tools, texts, strict=True))
    logged = [each.getMessage() for each in caplog.records if each.name == "agenttool.calls"]
    assert [each.partition("to change that: ")[2] for each in logged] == [change for _, _, change in blocked]


async def test_ask_21_a_tool_left_out_of_an_agents_surface_cannot_be_called_by_any_of_its_names(allow):
    ran = []

    async def note(job):
        ran.append(job.tool_id)

    tools = [scripted_tool(name, note, namespace="server") for name in ("read", "delete")]
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        reader = await rt.surface("role", only=["read"])
        everyone = await rt.surface("role")
        for name in ("delete", "server.delete", "tool_server.delete"):
            result = await rt.call(name, {}, surface=reader)
            assert (result.error.error_class, result.error.error_code) == ("blocked_tool", "role_not_allowed")
        await rt.call("delete", {}, surface=everyone)
    assert [each.name for each in reader.excluded_tools] == ["server.delete"]
    assert ran == ["tool_server.delete"]


TENANTS = '''
from typing import Annotated
from agenttool import Internal, tool

@tool(read_only=True, open_world=False)
async def search(query: str, tenant: Annotated[str, Internal] = "acme") -> str:
    """Search the orders. Not for invoices."""
    return f"{query} of {tenant}"
'''


async def test_ask_22_a_parameter_that_is_not_the_models_is_neither_shown_to_it_nor_taken_from_it(records):
    @tool(read_only=True, open_world=False)
    async def search(query: str, tenant: Annotated[str, Internal] = "acme") -> str:
        """Search the orders. Not for invoices."""
        return f"{query} of {tenant}"

    async with Runtime.open(tools=[search], approve="wait") as rt:
        surface = await rt.surface()
        result = await rt.call("search", {"query": "shoes"}, surface=surface)
        chosen = await rt.call("search", {"query": "shoes", "tenant": "rival"}, surface=surface)
        (declared,) = await records(rt, "tool_declaration")
    assert result.model_facing_content[0].text == "shoes of acme"
    assert chosen.error.error_class == "schema_validation_failed"
    assert "tenant" not in repr(declared["input_contract"]["model_input_schema"])


@pytest.mark.slow
def test_ask_22_the_terminal_does_not_take_it_from_the_model_either(terminal):
    (terminal.folder / "shop.py").write_text(TENANTS)
    assert "tenant" not in terminal("tools", "--from", "shop").stdout
    assert terminal("call", "search", "query=shoes", "--from", "shop").stdout == "shoes of acme\n"
    refused = terminal("call", "search", "query=shoes", "tenant=rival", "--from", "shop")
    assert refused.returncode == 1
    assert "remove 'tenant'" in refused.stdout


async def test_ask_25_a_tool_whose_text_changed_after_it_was_allowed_is_asked_about_again(asked, records):
    def described(text):
        @tool(name="mail", description=text)
        async def send(to: str) -> str:
            return "sent"

        return send

    async with Runtime.open(tools=[described("Mail a note. Not for files.")], approve="wait") as rt:
        waiting, question = await asked(rt, "mail", {"to": "ada"})
        suggestion = next(each.rule for each in question.suggested_updates if each.rule is not None)
        await rt.approvals.decide(question.approval_id, Remember(rule=suggestion))
        await waiting
        unasked = await rt.call("mail", {"to": "ada"}, surface=await rt.surface())
        rt.declare(described("Mail a note, and a copy to us. Not for files.").declared)
        waiting, again = await asked(rt, "mail", {"to": "ada"})
        await rt.approvals.decide(again.approval_id, "deny")
        refused = await waiting
        events = await records(rt, "tool_event")
        asks = [each for each in await records(rt, "tool_permission_decision") if each["behavior"] == "ask"]
    assert unasked.status == "succeeded"
    assert again.declaration_digest != question.declaration_digest
    assert "allowed it until the tool changed" in again.verdict.reason.message
    assert [each["reason"].get("details", {}).get("outdated_rule_refs") for each in asks] == [
        None,
        [f"session:{question.approval_id}"],
    ]
    assert refused.status == "rejected"
    declared = [each["data"]["tool_id"] for each in events if each["event_type"] == "tool.declared"]
    assert declared == ["tool_local.mail"] * 2


async def test_ask_03_hundreds_of_tools_cost_a_model_one_search_and_what_it_finds(allow):
    plenty = [scripted_tool(f"lookup_{number}", should_defer=True) for number in range(300)]
    wanted = scripted_tool("create_pull_request", saying("opened"), namespace="github", should_defer=True)
    async with Runtime.open(tools=[*plenty, wanted, scripted_tool("read")], rules=allow, approve="wait") as rt:
        surface = await rt.surface()
        early = await rt.call("create_pull_request", {}, surface=surface)
        found = await rt.search("open a pull request", surface=surface)
        loaded = await rt.load([found.matches[0].name], surface=surface)
        late = await rt.call("create_pull_request", {}, surface=loaded)
    shown = ("tool_test.read", "tool_agenttool.tool_search")
    assert (surface.loaded_tools, len(surface.deferred_tools)) == (shown, 301)
    assert (early.error.error_class, late.content[0].text) == ("schema_not_loaded", "opened")
    assert set(loaded.loaded_tools) == {*shown, "tool_github.create_pull_request"}
