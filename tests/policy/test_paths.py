import os
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import ConfigError
from agenttool.policy.paths import (
    WORKSPACE,
    PathPattern,
    PathPatterns,
    Workspace,
    all_covered,
    resolve_path,
    resolve_word,
)

names = st.sampled_from(["a", "b", "secrets", "src"])
spellings = st.lists(names | st.sampled_from(["..", ".", ""]), min_size=1, max_size=7)


def hits(pattern, text, workspace):
    return PathPattern(pattern).hits(resolve_path(text, workspace), workspace)


def covers(pattern, text, workspace):
    return all_covered([PathPattern(pattern)], resolve_path(text, workspace), workspace)


@given(spellings, st.booleans(), st.lists(names, min_size=1, max_size=2))
def test_containment_is_that_of_normalized_paths(spelling, absolute, directory):
    workspace = Workspace(roots=("/ws",), resolve=posixpath.normpath)
    text = ("/ws/" if absolute else "") + "/".join(spelling)
    if not text:
        return
    inside = posixpath.normpath("/ws/" + "/".join(directory))
    where = posixpath.normpath(posixpath.join("/ws", text))
    expected = where == inside or where.startswith(inside + "/")
    assert hits("/".join(directory), text, workspace) == expected
    assert covers("/".join(directory), text, workspace) == expected
    assert all_covered([WORKSPACE], resolve_path(text, workspace), workspace) == (
        where == "/ws" or where.startswith("/ws/")
    )


@pytest.mark.parametrize(
    "spelling",
    [
        "secrets/key",
        "./secrets//key",
        "src/../secrets/key",
        "/ws/secrets/key",
        "/ws/src/../../ws/secrets/key",
        "%73ecrets/key",
        "src/%2e%2e/secrets/key",
        "src/%252e%252e/secrets/key",
        "secrets%2Fkey",
        "secrets\\key",
        "src\\..\\secrets\\key",
        "file:///ws/secrets/key",
        "file:secrets/key",
        "SECRETS/key",
        "\uff53ecrets/key",
        "secrets\uff0fkey",
        "sec\u200crets/key",
        "secrets./key",
        "secrets /key",
        "/../../ws/secrets/key",
        "nul\0/key",
        "C:\\anything",
        "~somebody/key",
        "src/.. /secrets",
        "%ff",
        "",
        "x" * 10_000,
    ],
)
def test_a_deny_holds_however_the_path_is_spelled_and_an_allow_does_not(spelling, workspace):
    assert hits("secrets", spelling, workspace)
    assert not covers("src/**", spelling, workspace)


@pytest.mark.parametrize("spelling", ["src/a", "./src//a", "src/x/../a", "/ws/src/a", "src/%61"])
def test_an_allow_covers_every_spelling_of_what_is_inside(spelling, workspace):
    assert covers("src/**", spelling, workspace)
    assert covers("src", spelling, workspace)
    assert not hits("secrets", spelling, workspace)


def test_an_allow_with_a_wildcard_reaches_as_far_as_it_says_and_a_deny_everything_below(workspace):
    assert covers("src/*", "src/a", workspace)
    assert not covers("src/*", "src/a/b", workspace)
    assert hits("src/*", "src/a/b", workspace)
    assert not hits("src/*", "src", workspace)
    assert covers("**/*.py", "src/deep/a.py", workspace)
    assert not covers("**/*.py", "src/deep/a.pyc", workspace)


def test_home_is_where_the_workspace_says(workspace):
    assert hits("~/.ssh", "~/.ssh/id", workspace)
    assert hits("~/.ssh", "/home/me/.ssh/id", workspace)
    assert hits("/home/me", "~/notes", workspace)
    assert covers("~/notes", "~/notes/a", workspace)
    homeless = Workspace(roots=("/ws",), resolve=str)
    assert hits("/anything", "~/notes", homeless)
    assert not covers("/**", "~/notes", homeless)


def test_case_counts_for_an_allow(workspace):
    assert not covers("src", "SRC/a", workspace)


def test_without_a_way_to_follow_links_nothing_is_sure():
    blind = Workspace(roots=("/ws",))
    assert not covers("src", "src/a", blind)
    assert not all_covered([WORKSPACE], resolve_path("src/a", blind), blind)
    assert hits("src", "src/a", blind)
    assert hits("secrets", "src/a", blind)


def test_without_a_root_a_relative_pattern_of_a_deny_is_anywhere():
    nowhere = Workspace(resolve=str)
    assert hits("secrets", "/any/where/secrets/key", nowhere)
    assert not hits("secrets", "/any/where", nowhere)
    assert hits("secrets", "relative", nowhere)
    assert not covers("secrets", "/any/secrets", nowhere)


def test_a_path_that_the_world_cannot_resolve_is_unreadable():
    def broken(path):
        raise OSError(path)

    workspace = Workspace(roots=("/ws",), resolve=broken)
    assert hits("anything", "src/a", workspace)
    assert not covers("**", "src/a", workspace)


def test_a_root_with_a_star_in_its_name_is_only_itself():
    workspace = Workspace(roots=("/ws*",), resolve=str)
    assert covers("src", "/ws*/src/a", workspace)
    assert not covers("src", "/ws-other/src/a", workspace)


@pytest.fixture
def linked(tmp_path):
    """A real directory with links into, out of, and around the workspace."""
    ws, outside = tmp_path / "ws", tmp_path / "outside"
    for each in (ws / "src", ws / "secrets", outside):
        each.mkdir(parents=True)
    (ws / "secrets/key").write_text("k")
    (outside / "data").write_text("d")
    (ws / "src/shortcut").symlink_to(ws / "secrets")
    (ws / "src/key").symlink_to(ws / "secrets/key")
    (ws / "src/escape").symlink_to(outside)
    (ws / "vault").symlink_to(outside)
    (tmp_path / "door").symlink_to(ws)
    return tmp_path, Workspace(roots=(str(ws),), home=str(tmp_path), resolve=os.path.realpath)


@pytest.mark.parametrize(
    "spelling", ["src/shortcut/key", "src/key", "src/escape/../ws/secrets/key", "~/door/secrets/key", "~/door/src/key"]
)
def test_a_rule_on_a_directory_catches_a_link_that_points_into_it(linked, spelling):
    _, workspace = linked
    assert hits("secrets", spelling, workspace)
    assert not covers("src/**", spelling, workspace)


def test_a_link_that_leads_out_of_the_workspace_is_outside(linked):
    _, workspace = linked
    assert not all_covered([WORKSPACE], resolve_path("src/escape/data", workspace), workspace)
    assert not covers("src/**", "src/escape/data", workspace)
    assert all_covered([WORKSPACE], resolve_path("src/new/file", workspace), workspace)


def test_a_deny_on_a_link_also_denies_where_it_leads(linked):
    home, workspace = linked
    assert hits("vault", f"{home}/outside/data", workspace)
    assert hits("vault/data", "src/escape/data", workspace)


def test_an_allow_on_a_directory_does_not_follow_it_when_it_becomes_a_link(linked):
    home, workspace = linked
    assert not covers("vault", "vault/data", workspace)
    assert not covers("vault", f"{home}/outside/data", workspace)


def test_a_workspace_that_is_itself_behind_a_link_is_the_same_workspace(linked):
    home, workspace = linked
    behind = Workspace(roots=(str(home / "door"),), resolve=os.path.realpath)
    assert covers("src", "src/a", behind)
    assert covers("src", str(home / "ws/src/a"), behind)
    assert hits("secrets", str(home / "ws/secrets/key"), behind)
    assert workspace.bases != behind.bases


def test_a_word_that_a_shell_expands_may_be_any_name(linked):
    home, workspace = linked

    def word(text):
        return resolve_word(text, workspace, base=str(home / "ws"), expands=True)

    assert PathPattern("secrets").hits(word("s*/key"), workspace)
    assert PathPattern("secrets").hits(word("src/shortcut/*"), workspace)
    assert not PathPattern("secrets").hits(word("*.py"), workspace)
    assert not PathPattern("secrets/**/key").hits(word("src/*.py"), workspace)


def test_an_exception_takes_exact_paths_from_a_rule(decide, shell, rules):
    plain = [
        {"behavior": "allow", "tool": "local.*"},
        {"behavior": "ask", "tool": "*", "path": ["**/.*", "!**/.*ignore"]},
    ]
    verdicts = {
        line: decide(plain, shell, {"command": line}).behavior
        for line in ("cat .gitignore", "cat a/.npmignore", "cat .x", "cat .xignore/y", "cat .gitignore*")
    }
    assert list(verdicts.values()) == ["allow", "allow", "ask", "ask", "ask"]
    with pytest.raises(ConfigError, match="an allow cannot except a path"):
        rules({"behavior": "allow", "tool": "local.*", "path": [".", "!x"]})


steps = st.sampled_from(["a", "b", "x.py", "*", "*.py", "a*", "?", "**", "..", ".env", ".*"])


@given(
    st.lists(st.tuples(st.sampled_from(["", "/", "**/", "/**/", "a/"]), st.lists(steps, min_size=1, max_size=2))),
    st.lists(steps, min_size=1, max_size=4),
    st.booleans(),
)
def test_patterns_together_match_what_one_of_them_matches(patterns, path, expands):
    workspace = Workspace(roots=("/ws",), resolve=os.path.normpath)
    each = [PathPattern(start + "/".join(rest)) for start, rest in patterns]
    place = resolve_word("/".join(path), workspace, base="/ws", expands=expands)
    expected = any(pattern.hits(place, workspace) for pattern in each)
    assert PathPatterns(each).hits(place, workspace, is_ask=False) == expected
