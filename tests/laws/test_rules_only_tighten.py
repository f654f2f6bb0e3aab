"""Adding a deny rule never lets more through, whatever the other rules, the mode and the hooks say."""

import asyncio
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import CommandArg, PathArg, UrlArg, tool
from agenttool.config import Setting
from agenttool.policy.rule_settings import read_rules
from agenttool.policy.votes import PermissionMode
from agenttool.records import HookEvent, RuleSource

STRICTNESS = ("allow", "ask", "deny")
PATHS = ("src/a.py", "secrets/key", "../up", "/etc/passwd")
COMMANDS = ("git status", "git push --force", "rm -rf /", "ls && rm x", "echo $(id)")
URLS = ("https://example.com/v1/x", "http://evil.example/", "https://example.com@evil.example/")

ran = []


@tool(namespace="files", read_only=True, concurrency_safe=True, open_world=False)
async def read(path: Annotated[str, PathArg]) -> str:
    """Read a file. Not for folders."""
    ran.append("files.read")
    return path


@tool(namespace="files", open_world=False, destructive=False)
async def save(path: Annotated[str, PathArg], size: int) -> str:
    """Save a file. Not for folders."""
    ran.append("files.save")
    return path


@tool(namespace="shell")
async def sh(command: Annotated[str, CommandArg]) -> str:
    """Run a command. Not for editing."""
    ran.append("shell.sh")
    return command


@tool(namespace="web", approval_required=True)
async def get(url: Annotated[str, UrlArg]) -> str:
    """Get a page. Not for forms."""
    ran.append("web.get")
    return url


TOOLS = [read, save, sh, get]

calls = st.one_of(
    st.tuples(st.just("files.read"), st.fixed_dictionaries({"path": st.sampled_from(PATHS)})),
    st.tuples(
        st.just("files.save"),
        st.fixed_dictionaries({"path": st.sampled_from(PATHS), "size": st.sampled_from([1, 5, 100])}),
    ),
    st.tuples(st.just("shell.sh"), st.fixed_dictionaries({"command": st.sampled_from(COMMANDS)})),
    st.tuples(st.just("web.get"), st.fixed_dictionaries({"url": st.sampled_from(URLS)})),
)

PATH_RULES = st.sampled_from(["src/**", "secrets", "**", "~/.ssh/**"])
COMMAND_RULES = st.sampled_from(["git *", "git push *", "rm *", "ls"])
URL_RULES = st.sampled_from(["https://example.com/**", "http://*.example/**", "https://*.example/**"])
BELOW_SRC = {"/path": {"prefix": "src"}}


def conditions_on(tools, **conditions):
    return st.fixed_dictionaries({"tool": st.sampled_from(tools)}, optional=conditions)


conditions = st.one_of(
    conditions_on(["*", "files.*"], path=PATH_RULES, argument=st.sampled_from([{"/size": {"max": 10}}, BELOW_SRC])),
    conditions_on(["files.read"], path=PATH_RULES, argument=st.just(BELOW_SRC)),
    conditions_on(["*", "shell.sh"], command=COMMAND_RULES),
    conditions_on(["*", "web.get"], url=URL_RULES),
)
sources = st.sampled_from(list(RuleSource))


def rules_of(behaviors):
    """Several rules as somebody could write them, each from some source."""
    written = st.tuples(st.sampled_from(behaviors), conditions, sources)
    return st.lists(written, max_size=5)


def read_book(written, prefix):
    return read_rules(
        Setting(members={"name": f"{prefix}{n}", "behavior": behavior, "optional": True, **members}, source=source)
        for n, (behavior, members, source) in enumerate(written)
    )


async def verdict_on(rt, surface, name, arguments):
    """Call; refuse whatever is asked; give the first decision and whether it ran."""
    ran.clear()
    calling = asyncio.ensure_future(rt.call(name, arguments, surface=surface))
    while not calling.done():
        await asyncio.sleep(0)
        for question in await rt.approvals.list():
            await rt.approvals.decide(question.approval_id, "deny")
    result = await calling
    events = [
        each async for each in rt.journal.export() if getattr(each, "invocation_id", None) == result.invocation_id
    ]
    behavior = next(each.behavior.value for each in events if hasattr(each, "behavior"))
    assert (behavior == "allow") == (ran == [name]) == (not result.is_error)
    return behavior


situations = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(list(PermissionMode)),
        "interactive": st.booleans(),
        "hint": st.sampled_from([None, "allow", "ask", "deny", "passthrough"]),
        "hook_is_binding": st.booleans(),
    }
)


@pytest.fixture(scope="session")
def verdicts(run, opened, hook):
    """Judge one call under several books, with a hook that has an opinion; none if its tool is not even offered."""

    def verdicts(books, call, situation):
        advisor = hook(HookEvent.PRE_TOOL_USE, lambda _: {"permission_result": situation["hint"]}, name="advisor")
        policy = {name: situation[name] for name in ("mode", "interactive")}

        async def scenario():
            found = []
            for rules in books:
                async with opened(TOOLS, rules=rules, hooks=[advisor], **policy) as rt:
                    surface = await rt.surface()
                    if call[0] not in {absent.name for absent in surface.blocked_tools}:
                        found.append(await verdict_on(rt, surface, *call))
            return found

        return run(scenario())

    return verdicts


def book_of(written, situation):
    rules = read_book(written, "r")
    if not situation["hook_is_binding"]:
        return rules
    waiver = {"name": "waiver", "behavior": "allow", "tool": "*", "hook": "advisor"}
    return (*rules, *read_rules([Setting(members=waiver, source=RuleSource.POLICY_SETTINGS)]))


@pytest.mark.requirement("AT-HOOK-14", "AT-PERM-17")
@pytest.mark.slow
@given(book=rules_of(STRICTNESS), denials=rules_of(("deny",)).filter(bool), call=calls, situation=situations)
def test_a_deny_rule_more_never_lets_more_through(verdicts, book, denials, call, situation):
    rules = book_of(book, situation)
    found = verdicts([rules, (*rules, *read_book(denials, "d"))], call, situation)
    strictness = [STRICTNESS.index(each) for each in found]
    assert strictness == sorted(strictness)


@pytest.mark.requirement("AT-HOOK-14", "AT-PERM-17")
@given(book=rules_of(STRICTNESS), call=calls, situation=situations)
def test_a_deny_of_the_policy_layer_stands_against_everything(verdicts, book, call, situation):
    house_rule = ("deny", {"tool": call[0]}, RuleSource.POLICY_SETTINGS)
    rules = (*book_of(book, situation), *read_book([house_rule], "house"))
    assert set(verdicts([rules], call, situation)) <= {"deny"}
