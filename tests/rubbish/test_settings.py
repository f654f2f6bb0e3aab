"""Settings files with every kind of fault: each error names the file, the line and the remedy."""

import pytest

from agenttool import ConfigError, Runtime, tool


@tool(read_only=True, open_world=False)
async def add(a: int) -> int:
    """Add one. Not for text."""
    return a + 1


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Open a runtime with a settings file of these words."""
    monkeypatch.chdir(tmp_path)

    async def open_with(words):
        (tmp_path / "agenttool.toml").write_bytes(words if isinstance(words, bytes) else words.encode())
        async with Runtime.open(tools=[add], rules="agenttool.toml") as runtime:
            return await runtime.call("add", {"a": 1}, surface=await runtime.surface())

    return open_with


def rule(*lines):
    return "\n".join(["", "[[rules]]", "behavior = 'deny'", *lines])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("[[rules", "not TOML"),
        (b"\xff\xfe\x00", "not TOML"),
        ("a = " + "[" * 5000 + "]" * 5000, "not TOML"),
        ("a = " + "9" * 5000, "not TOML"),
        ("a = 1\na = 2\n", "line 2"),
        ("[rulez]", "no setting is called 'rulez'"),
        ("[rules]\nbehavior = 'deny'", r"write \[\[rules\]\]"),
        ("rules = 5", r"write \[\[rules\]\]"),
        ("rules = [1]", r"write \[\[rules\]\]"),
        ("[[hooks]]\nname = 'x'", "event must be one or more of"),
        ("permissions = 5", r"write \[permissions\]"),
        ("[permissions]\nmod = 'x'", "no 'mod'"),
        ("[permissions]\nmode = 5", "mode must be a text"),
        ("[permissions]\nmode = 'yolo'", "no permission mode is called 'yolo'"),
        ("[permissions]\ninteractive = 'no'", "must be true or false"),
        ("[permissions]\nworkspace = 5", "workspace must be a folder"),
        ("[permissions]\nworkspace = ['a', 5]", "workspace must be a folder"),
        ("[permissions]\nworkspace = ''", "workspace must be a folder"),
    ],
    ids=lambda words: str(words)[:30],
)
async def test_a_fault_of_the_file_is_reported_with_its_name(opened, words, problem):
    with pytest.raises(ConfigError, match=problem) as error:
        await opened(words)
    assert "agenttool.toml" in str(error.value) or "permission mode" in str(error.value)
    assert "; " in str(error.value), "what to do"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("\n[[rules]]\ntool = '*'", "behavior must be allow, ask or deny, got None"),
        ("\n[[rules]]\nbehavior = 'maybe'\ntool = '*'", "got 'maybe'"),
        ("\n[[rules]]\nbehavior = ['deny']\ntool = '*'", r"got \['deny'\]"),
        ("\n[[rules]]\nbehaviour = 'deny'", "did you mean 'behavior'"),
        (rule(), "needs a condition"),
        (rule("tool = ''"), "tool must be a text"),
        (rule("tool = 5"), "tool must be a text"),
        (rule("tool = []"), "tool must be a text"),
        (rule("tool = ['a', 5]"), "tool must be a text"),
        (rule("kind = 'functoin'"), "did you mean 'function'"),
        (rule("url = '::::'"), "a url pattern needs a host"),
        (rule("command = '\"open'"), "its quotes in pairs"),
        (rule('path = "a\\u0000b"'), "a path pattern"),
        (rule("tool = '*'", "because = 5"), "because must be a text"),
        (rule("tool = '*'", "expires_at = 'soon'"), "expires_at must be a moment"),
        (rule("tool = '*'", "expires_at = 10:00:00"), "expires_at must be a moment"),
        (rule("tool = '*'", "expires_at = 5"), "expires_at must be a moment"),
        (rule("argument = {'/a' = {maxx = 1}}"), "did you mean 'max'"),
        (rule("argument = {'a' = {max = 1}}"), "write '/a'"),
        (rule("argument = {'/a' = {max = 'x'}}"), "max must be a number"),
        (rule("argument = {'/a' = {max = nan}}"), "not a JSON value: nan"),
        (rule("argument = {'/a' = {equals = 2030-01-31}}"), "not a JSON value: date"),
        (rule("argument = {'/a' = {one_of = [1, 10:00:00]}}"), "'/one_of/1'"),
        (rule("tool = 'a.*'", "must_match = [{tool = 'b.c', arguments = {}}]"), "which it must"),
        (rule("tool = '*'", "must_match = [{tool = 'b.c', arguments = {x = 2030-01-31}}]"), "not a JSON value: date"),
        (rule("tool = '*'", "must_match = [{arguments = {}}]"), "tool must be a text, got None"),
        (rule("tool = '*'", "hook = 'x'"), "only an allow of policy_settings"),
        (rule("tool = '*'", "settles = 'x'"), "only an allow of a session"),
        ("\n[[rules]]\nbehavior = 'allow'\ntool = 'add'", "names its tool with its namespace"),
        (rule("tool = '*'", "name = 'x'") + rule("tool = '*'", "name = 'x'"), "two rules are called"),
    ],
    ids=lambda words: str(words).replace("\n", " ")[-30:],
)
async def test_a_fault_of_a_rule_is_reported_with_its_line(opened, words, problem):
    with pytest.raises(ConfigError, match=problem) as error:
        await opened(words)
    assert "agenttool.toml:2" in str(error.value)


@pytest.mark.parametrize(
    "words", ["", "# nothing\n", "\ufeff[[rules]]\nbehavior = 'ask'\ntool = 'other.*'\noptional = true\n"]
)
async def test_a_file_that_says_little_is_a_file(opened, words):
    assert (await opened(words)).structured_content == 2


@pytest.mark.parametrize("place", [".", "gone.toml", "gone/gone.toml", "a\0b"])
async def test_a_file_that_cannot_be_read_is_reported_by_name(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"name another file|correct it"):
        Runtime.open(tools=[add], rules=place)
