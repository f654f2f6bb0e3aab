import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.command_patterns import command_pattern
from agenttool.policy.commands import parse_commands


def only(text):
    [subcommand] = parse_commands(text).subcommands
    return subcommand


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("git status", "git status", True),
        ("git status", "git  'status'", True),
        ("git status", "git status -v", False),
        ("git status", "git", False),
        ("git status", "/usr/bin/git status", False),
        ("git status", "./git status", False),
        ("git status", "GIT status", False),
        ("git log *", "git log", True),
        ("git log *", "git log -3 --stat", True),
        ("git log *", "git log $x", True),
        ("git log *", "git $x", False),
        ("git log -3", "git log $x", False),
        ("npm run test:*", "npm run test:unit", True),
        ("npm run test:*", "npm run build", False),
        ("*", "anything at all", True),
        ("*", "$x", False),
        ("git status", "A=1 git status", False),
        ("A=1 git status", "A=1 git status", True),
        ("A=1 git status", "A=2 git status", False),
        ("A=* git status", "A=2 git status", True),
        ("A=* git status", "A=$x git status", False),
        ("git status", "LANG=C git status", True),
        ("git status", "LD_PRELOAD=x git status", False),
        ("wc -l", "wc -l < f", False),
        ("wc *", "wc -l < f", True),
        ("PATH=/bin", "PATH=/bin", True),
        ("git status", "PATH=/evil", False),
        ("*", "PATH=/evil", False),
    ],
)
def test_an_allow_covers_exactly_what_it_says(pattern, command, covered):
    assert command_pattern(pattern).covers(only(command)) is covered


@pytest.mark.parametrize(
    ("pattern", "command", "hit"),
    [
        ("rm", "rm x", True),
        ("rm -rf", "rm -rf /", True),
        ("rm -rf", "rm -fr /", True),
        ("rm -rf", "rm -r -f /", True),
        ("rm -rf", "rm / -r -v -f", True),
        ("rm -rf", "rm -r /", False),
        ("rm -rf", "rm $flags /", True),
        ("rm -rf *", "rm -rf /", True),
        ("git push", "git push origin main", True),
        ("git push", "git -C /x push", True),
        ("git push", "git pull", False),
        ("git push --force", "git push origin --force", True),
        ("git push --force", "git push origin --forc", True),
        ("git push --force", "git push --force=yes", True),
        ("git push --force", "git push --force-with-lease", False),
        ("git push --force", "git push", False),
        ("git push --force", "git push $x", True),
        ("git push --force", "git $x", True),
        ("curl *", "curl", True),
        ("/usr/bin/curl", "curl x", True),
        ("curl", "/opt/curl x", True),
        ("LD_PRELOAD=*", "LD_PRELOAD=x ls", True),
        ("LD_PRELOAD=*", "LD_PRELOAD=$x ls", True),
        ("LD_PRELOAD=*", "LANG=$x ls", False),
        ("LD_PRELOAD=*", "ls", False),
        ("*", "anything", True),
        ("rm", "/bin/r? x", True),
        ("rm", "*.py x", False),
        ("git push", "git p*", True),
        ("git push", "git l*", False),
    ],
)
def test_a_deny_hits_whatever_may_be_meant(pattern, command, hit):
    assert command_pattern(pattern).hits(only(command)) is hit


words = st.lists(st.sampled_from(["git", "log", "-v", "-x", "a", "--all", "$x", "*.py"]), min_size=1, max_size=4)


@given(words, words)
def test_what_an_allow_of_a_pattern_covers_a_deny_of_it_hits(pattern, command):
    pattern = command_pattern(" ".join(pattern).replace("$x", "x"))
    subcommand = only(" ".join(command))
    if pattern.covers(subcommand):
        assert pattern.hits(subcommand)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "at least a name"),
        ("git 'status", "quotes in pairs"),
        ("git status && ls", "one pattern per command"),
        ("ls > out", "one pattern per command"),
        ("echo $(ls)", "one pattern per command"),
    ],
)
def test_what_is_no_pattern_is_refused_with_advice(text, advice):
    with pytest.raises(ValueError, match=advice):
        command_pattern(text)
