"""The rules that come with the package, measured on collections of commands."""

from collections import Counter
from pathlib import Path

import pytest

from agenttool.config import read_config, starter_rules
from agenttool.policy.rule_settings import read_rules

COMMANDS = Path(__file__).parent / "commands"


def collection(name):
    """Return the commands of a file, one a line; `␤` stands for a newline."""
    return [line.replace("␤", "\n") for line in (COMMANDS / name).read_text().splitlines() if line]


@pytest.mark.slow
def test_the_starter_rules_ask_about_every_dangerous_command_and_few_ordinary_ones(starter):
    ordinary, dangerous = collection("ordinary.txt"), collection("dangerous.txt")
    assert len(ordinary) >= 400
    assert len(dangerous) >= 120
    verdicts = {command: starter(command).behavior for command in ordinary}
    unasked = [command for command in dangerous if starter(command).behavior == "allow"]
    counts = Counter(verdicts.values())
    print(f"{len(unasked)} of {len(dangerous)} dangerous commands run unasked")
    print(f"{counts['ask']} of {len(ordinary)} ordinary commands are asked about, {counts['deny']} denied")
    assert unasked == []
    assert counts["ask"] < 0.2 * len(ordinary)
    assert [command for command, verdict in verdicts.items() if verdict == "deny"] == []


def test_every_starter_rule_has_examples_of_both_kinds():
    members = [setting.members for setting in starter_rules()]
    assert [each["name"] for each in members if not each.get("must_match") or not each.get("must_not_match")] == []


def test_a_settings_file_can_include_the_starter_rules(tmp_path):
    file = tmp_path / "agenttool.toml"
    file.write_text('[permissions]\nrules = "starter"\n\n[[rules]]\nbehavior = "allow"\ntool = "files.*"\n')
    rules = read_rules(read_config(file).rules)
    assert len(rules) == len(starter_rules()) + 1
    assert {rule.file for rule in rules[1:]} == {"starter.toml"}


EVERYTHING = {"behavior": "allow", "tool": "*"}


def test_one_deny_denies_only_the_commands_that_name_it(decide, shell):
    denied = {"behavior": "deny", "tool": "*", "command": "rm *"}
    verdicts = {
        line: decide([EVERYTHING, denied], shell, {"command": line}).behavior for line in collection("ordinary.txt")
    }
    assert {line for line, verdict in verdicts.items() if verdict == "deny"} == {
        line for line in verdicts if line.startswith("rm ") or "-exec rm" in line
    }
    assert verdicts["find . -perm 755"] == verdicts["echo $((1+2))"] == "allow"


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in collection("dangerous.txt")
        if "rm" in line.split()[0:1] or ("'rm" in line and ".git/" not in line)
    ],
)
def test_no_spelling_of_a_denied_command_runs_under_a_broad_allow(decide, shell, line):
    denied = {"behavior": "deny", "tool": "*", "command": "rm *"}
    assert decide([EVERYTHING, denied], shell, {"command": line}).behavior != "allow"


@pytest.mark.parametrize(("line", "verdict"), [("pytest -q > /logs/out.txt 2>&1", "allow"), ("pytest > /opt/x", "ask")])
def test_a_redirection_is_judged_like_tee(decide, shell, line, verdict):
    tests = {"behavior": "allow", "tool": "*", "command": "pytest *", "path": "."}
    notes = {"behavior": "allow", "tool": "*", "command": "tee *", "path": "/logs/*"}
    assert decide([tests, notes], shell, {"command": line}).behavior == verdict
    assert decide([tests], shell, {"command": line}).behavior == "ask"


def test_a_folder_that_is_entered_twice_counts_twice(decide, shell):
    denied = {"behavior": "deny", "tool": "*", "path": "src/src/plan.txt"}
    call = {"command": "cd src; cd src; cat plan.txt"}
    assert decide([EVERYTHING, denied], shell, call).behavior == "deny"


def test_a_question_about_an_unknown_program_names_no_rule_about_other_programs(starter):
    reason = starter("ag foo").reason.message
    assert reason == "no rule allows this command: program 'ag' is not known"


@pytest.mark.parametrize(
    ("line", "behavior", "reason"),
    [
        ('echo "" >> README.md', "allow", ""),
        ('echo "" > README.md', "ask", "'README.md' would be emptied"),
        ('echo "" > README.md >> README.md', "ask", "'README.md' would be emptied"),
        ("pushd api && make test && popd", "allow", ""),
        ("popd && make test", "ask", ""),
        ("export PYTHONPATH=src && pytest", "allow", ""),
        ("export PYTHONPATH=/tmp/x && pytest", "ask", ""),
        ("npm run", "allow", ""),
        ("tar -cf o.tar . && strings o.tar", "ask", "/ws/**"),
        ("tar -cf o.tar src && strings o.tar", "allow", ""),
        ("zip -r o.zip .", "ask", "/ws/**"),
        ("nm @/etc/hosts", "ask", "which may be a file with options"),
    ],
)
def test_the_starter_rules_ask_for_a_reason_that_fits_the_command(starter, line, behavior, reason):
    verdict = starter(line)
    assert verdict.behavior == behavior
    assert reason in verdict.reason.message
