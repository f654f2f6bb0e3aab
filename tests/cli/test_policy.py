"""`agenttool policy replay`: other rules for recorded calls, and `unknown` where the journal is not enough."""

import json
import sys
import tomllib

import pytest

NOTHING_NEW = """
[[rules]]
name = "kitchen"
behavior = "allow"
tool = "kitchen.*"

[[rules]]
name = "tidy"
behavior = "allow"
tool = "files.*"

[[rules]]
name = "keep-keys"
behavior = "deny"
tool = "files.*"
path = "keys/**"

[[rules]]
name = "ask-bank"
behavior = "ask"
namespace = "bank"
"""


def rule(name, **conditions):
    lines = [
        f"{key} = {value if isinstance(value, str) and value[0] == '{' else json.dumps(value)}"
        for key, value in conditions.items()
    ]
    return "\n".join(["[[rules]]", f'name = "{name}"', *lines, ""])


@pytest.fixture
def outcomes(run, journal, tmp_path):
    """Replay some settings; give what would have become of each call, and the summary."""

    def replay(text, *words):
        (tmp_path / "new.toml").write_text(text)
        outcome = run("policy", "replay", "new.toml", "--json", *words)
        assert outcome.exit_code == 0, outcome.stderr
        *calls, summary = [json.loads(line) for line in outcome.stdout.splitlines()]
        names = {call: what for what, call in journal.items()}
        return {names.get(each["invocation_id"], "child"): each for each in calls}, summary

    return replay


def test_the_recorded_rules_decide_as_recorded(outcomes):
    calls, summary = outcomes(NOTHING_NEW)
    assert {what: (each["was"], each["would"]) for what, each in calls.items() if each["differs"]} == {}
    assert (summary["calls"], summary["differ"], summary["unknown"], summary["not_judged"]) == (11, 0, 0, 2)
    assert calls["edited"]["answer"] == "allow"


@pytest.mark.parametrize(("words", "calls"), [(("--since", "30d"), 11), (("--until", "30d"), 0), (("--since", "2999-01-01"), 0)])  # fmt: skip
def test_only_the_calls_of_a_time_are_replayed(outcomes, words, calls):
    _, summary = outcomes(NOTHING_NEW, *words)
    assert (summary["calls"], summary["differ"]) == (calls, 0)


def test_an_added_rule_shows_where_it_would_have_decided(outcomes):
    calls, summary = outcomes(NOTHING_NEW + rule("no-bread", behavior="deny", tool="kitchen.bake"))
    assert {what for what, each in calls.items() if each["differs"]} == {"hooked"}
    assert calls["hooked"]["rule_refs"] == ["project_settings:no-bread"]
    assert summary["was_would"]["allow"]["deny"] == 1


def test_the_input_is_replayed_as_a_hook_changed_it(outcomes):
    text = NOTHING_NEW + rule("few", behavior="ask", tool="kitchen.bake", argument='{ "/loaves" = { min = 3 } }')
    assert not outcomes(text)[0]["hooked"]["differs"]


@pytest.mark.parametrize(
    ("behavior", "would"),
    [("deny", "unknown"), ("allow", "ask")],
)
def test_a_rule_on_a_redacted_value_is_unknown_unless_it_cannot_matter(outcomes, behavior, would):
    text = NOTHING_NEW + rule("pins", behavior=behavior, tool="bank.transfer", argument='{ "/pin" = { prefix = "0" } }')
    call = outcomes(text)[0]["edited"]
    assert call["would"] == would
    if would == "unknown":
        assert call["because"] == "project_settings:pins looks at /pin, which is redacted"


def test_a_rule_on_unrecorded_facts_is_unknown_only_where_its_other_conditions_match(outcomes):
    text = NOTHING_NEW + rule("shells", behavior="deny", kind="shell_command", namespace="kitchen")
    calls, summary = outcomes(text)
    assert {each["tool"].partition(".")[0] for each in calls.values() if each["would"] == "unknown"} == {"kitchen"}
    assert summary["unknown"] == 5


def test_without_rules_the_recorded_facts_decide(outcomes):
    calls, _ = outcomes("")
    assert calls["plain"]["would"] == "allow"
    assert calls["deleted"]["would"] == "ask"
    assert calls["denied"]["would"] == "unknown"
    assert "--from" in calls["denied"]["because"]


def test_declared_tools_leave_no_decision_unknown(outcomes, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "shelf.py").write_text(
        "from agenttool import tool\n"
        '@tool(namespace="files", destructive=True)\n'
        "async def delete(path: str) -> str:\n"
        '    """Delete a file. Not for folders."""\n'
        "    return path\n"
    )
    calls, _ = outcomes(rule("shells", behavior="deny", kind="shell_command"), "--from", "shelf")
    assert (calls["deleted"]["was"], calls["deleted"]["would"]) == ("allow", "ask")
    assert calls["denied"]["would"] == "ask"


def test_a_stricter_mode_is_replayed_too(outcomes):
    calls, _ = outcomes('[permissions]\nmode = "read_only"\n' + NOTHING_NEW)
    assert calls["denied"]["would"] == "deny"
    assert calls["deleted"]["would"] == "deny"
    assert calls["plain"]["would"] == "unknown"


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("columns", [80, 120])
def test_differences_are_grouped_and_totaled(run, tmp_path, columns):
    (tmp_path / "new.toml").write_text(NOTHING_NEW + rule("no-more", behavior="ask", tool="kitchen.*"))
    outcome = run("policy", "replay", "new.toml", COLUMNS=str(columns))
    assert outcome.exit_code == 0
    assert "kitchen.bake    allow  ask       project_settings:no-more" in outcome.stdout
    assert "no decision" in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines())) <= columns


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\n[[rules]]\nbehaviour = "deny"\n', "new.toml:2: a rule has no 'behaviour'"),
        ('[permissions]\nmode = "sleepy"\n', "sleepy"),
        (None, "new.toml"),
    ],
)
def test_rules_that_cannot_be_read_are_reported(run, tmp_path, text, message):
    if text is not None:
        (tmp_path / "new.toml").write_text(text)
    outcome = run("policy", "replay", "new.toml")
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_a_call_is_tried_with_an_actor_and_the_roles_of_its_key(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mailtools.py").write_text(
        "from agenttool import tool\n\n@tool(namespace='mail')\ndef send(to: str) -> str:\n    \"Send.\"\n"
    )
    (tmp_path / "rules.toml").write_text(
        rule("staff", behavior="allow", tool="mail.send", role="gateway:operator")
        + rule("eve", behavior="deny", tool="mail.send", actor="agent:eve")
    )

    def tried(*words):
        return run("policy", "try", "mail.send", "to=ada", "--from", "mailtools", "--settings", "rules.toml", *words)

    def decided(*words):
        return json.loads(tried("--json", *words).stdout)["behavior"]

    assert decided("--actor", "agent:ci", "--role", "caller", "--role", "operator") == "allow"
    assert decided("--actor", "agent:ci", "--role", "caller") == "ask"
    assert decided("--actor", "agent:eve", "--role", "operator") == "deny"
    assert decided() == "deny"
    shown = tried("--actor", "agent:ci", "--role", "operator").stdout
    assert [word for word in ("allow", "decided by", "staff") if word not in shown] == []
    assert "name the actor with --actor" in tried("--role", "operator").stderr


SOURCES = """
[sources.files]
kind = "mcp"
command = "program-that-does-not-exist"

[sources.modules]
kind = "python"
module = "clocktools"
"""


@pytest.mark.parametrize("name", ["mail.send", "send", "clock.now", "now"])
def test_a_call_is_tried_without_the_sources_that_cannot_have_its_tool_or_do_not_answer(
    run, tmp_path, monkeypatch, caplog, name
):
    """Rules about those sources are no errors, and need no warning if the sources were not asked."""
    monkeypatch.chdir(tmp_path)
    for module, namespace, function in (("mailtools", "mail", "send"), ("clocktools", "clock", "now")):
        text = f"from agenttool import tool\n\n@tool(namespace='{namespace}')\ndef {function}() -> str:\n    'Work.'\n"
        (tmp_path / f"{module}.py").write_text(text)
    (tmp_path / "rules.toml").write_text(
        SOURCES
        + rule("read", behavior="allow", tool="files.read")
        + rule("own", behavior="allow", tool=["mail.send", "clock.now"])
    )
    tried = run("policy", "try", name, "--from", "mailtools", "--settings", "rules.toml", "--json")
    assert tried.exit_code == 0, tried.output
    assert json.loads(tried.stdout)["behavior"] == "allow"
    assert ("not considered, because they did not answer: files" in tried.stderr) == (name == "now")
    assert ("matches no tool that is known now" in caplog.text) == (name in ("now", "clock.now"))


def test_listed_rules_are_settings_that_list_the_same_rules(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    roles = '[roles]\nintern = ["bob"]\n'
    text = "".join(
        rule(f"rule-{number}", **each)
        for number, each in enumerate(
            [
                {"behavior": "deny", "tool": ["files.*", "disk.*"], "path": ["secrets", "~/.ssh/**"], "optional": True},
                {"behavior": "ask", "command": "git push *", "because": 'the "main" branch'},
                {"behavior": "allow", "tool": "files.read", "role": "intern", "optional": True},
                {"behavior": "ask", "actor": "bob", "url": "https://*.example.com/v1/**"},
                {"behavior": "deny", "kind": "shell_command", "expires_at": "2999-01-01T00:00:00Z"},
                {"behavior": "ask", "argument": '{ "/limit" = { min = 1, max = 2.5 }, "/to" = { one_of = ["a"] } }'},
            ]
        )
    )

    def listed(settings, *words):
        (tmp_path / "listed.toml").write_text(settings + roles)
        outcome = run("policy", "rules", "--settings", "listed.toml", *words)
        assert outcome.exit_code == 0, outcome.stderr
        return outcome.stdout

    def tables(settings):
        found = map(json.loads, listed(settings, "--json").splitlines())
        return [(each["behavior"], each["rule"]) for each in found]

    printed = listed(text)
    assert len(tables(text)) == 6
    assert tables(printed) == tables(text)
    without_names = [{**each, "name": None} for each in tomllib.loads(text)["rules"]]
    assert [{**each, "name": None} for each in tomllib.loads(printed)["rules"]] == without_names
