"""The files of a runtime itself: its store, payloads, settings and keys. No rule lets a call use them unasked."""

import pytest

from agenttool import Runtime, make_tool, tool
from agenttool.config.reader import user_folder

EVERYTHING = {"behavior": "allow", "tool": "*"}

SETTINGS = """
[store]
url = "sqlite:state/journal.db"
payloads = "large"

[credentials.forge]
file = "keys/forge-{actor}"

[[hooks]]
name = "look"
event = "pre_tool_use"
command = ["python3", "hooks/look.py"]
tool = "mail.*"
"""

BROAD = """
[[rules]]
behavior = "allow"
tool = "shop.*"
"""

REACHING = [
    "cp src/a.py state/journal.db",
    "echo x > state/journal.db",
    "cat state/journal.db",
    "cat state/journal.db-wal",
    "rm state/journal.db-withdrawn",
    "head -c 100 state/journal.db-shm",
    "strings state/journal.db-payloads/sha256/ab/cd",
    "cat state/journal.acme.db",
    "cat state/journal.acme.db-wal",
    "cat large/sha256/ab/cd",
    "cat settings.toml",
    "sed -i s/ask/allow/ settings.toml",
    "cat keys/forge-ada",
    "cp src/a.py hooks/look.py",
    "cat src/../state/journal.db",
    "cat state/jour*",
    "cat state/?ournal.db",
    "cat state/*.db",
    "cat linked/journal.db",
    "cd state && cat journal.db",
    "cd src; cat ../state/journal.db",
    "f=state/journal.db; cat $f",
    "cat < state/journal.db",
    "ls src >> state/journal.db",
    "tee state/journal.db < src/a.py",
    "rm -rf .",
    "rm -rf state",
    "rm -rf ./*",
    "mv state elsewhere",
    "mv * src/",
    "cp -r . src/copy",
    "cp -r state src/copy",
    "ln -s state src/link",
    "tar -cf o.tar .",
    "tar -cf o.tar state",
    "tar xf o.tar",
    "zip -r o.zip state",
    "rsync -a state src/copy",
    "find . -delete",
    "find -delete",
    "find state -type f -exec cat {} +",
    "find . -name '*.db' | xargs cat",
    "git clean -fdx",
    "git stash -u",
    "git checkout -- .",
    "git reset --hard",
    "git -C . reset --hard HEAD~1",
    "git checkout -f main",
    "git switch --discard-changes main",
    "git read-tree -u --reset HEAD",
    "git stash",
    "git stash push -m wip",
    "git -C src stash",
    "git add -A && git stash",
    "git add . && git diff --cached --text",
    "git log -p --text",
    "git show -a HEAD",
    "git diff --binary HEAD",
    "git grep --untracked -a facts",
    "git grep -W facts",
    "git add -f .",
    "git add -Af",
    "grep -ra facts .",
    "grep -r -A99999 -B99999 store .",
    "grep -r -99999 store .",
    "grep -r --context=9999 store .",
    "grep -a facts state/*",
    "grep -A9999 admitted state/*",
    "rg -uuu -A9999 facts .",
    "rg -a facts",
    "rg '' state",
    "rg -U 'store[^z]*'",
    "chmod -R 777 .",
    "sqlite3 state/journal.db .dump",
    "sqlite3 'file:state/journal.db?mode=ro' .tables",
    "sqlite3 file:state/journal.db?mode=ro .tables",
    "sqlite3 'file:state%2Fjournal.db' 'select * from facts'",
    "ln -s journal.db state/m && cp src/a.py state/m",
    "ln -s journal.db-wal state/n && strings state/n",
    "ln -sf journal.db state/m",
    "ln -s -t state journal.db",
    "/bin/ln -s ../state src/link",
    "/bin/rm -rf .",
    "/usr/bin/find . -delete",
    "python src/main.py settings.toml",
    "python src/main.py --input=settings.toml",
    "python src/main.py *.toml",
    "python -c \"open('state/journal.db', 'w')\"",
]

HARMLESS = [
    "ls -la state",
    "cat src/a.py",
    "cp src/a.py src/b.py",
    "cp -r src/x src/y",
    "mv src/a.py src/b.py",
    "grep -rn TODO .",
    "rg TODO",
    "rg -n -C3 TODO src",
    "grep -rn -A5 TODO src",
    "git status",
    "git diff",
    "git log -p -3",
    "git show HEAD",
    "git commit -am 'Fix it'",
    "git stash list",
    "git add src",
    "git add -u",
    "git switch main",
    "git checkout main",
    "git pull",
    "pytest -q > out.txt",
    "tar -cf o.tar src",
    "mkdir -p build && touch build/x",
    "ln -s a.py src/b.py",
    "python src/main.py settings journal.db *.csv",
]


@tool(namespace="shop", open_world=False, kind="shell_command")
async def run(command: str) -> str:
    """Run a command. Not for files."""
    return command


@tool(namespace="shop", open_world=False)
async def write_file(path: str) -> str:
    """Write a file. Not for folders."""
    return path


@tool(namespace="shop", open_world=False, read_only=True)
async def read_file(path: str) -> str:
    """Read a file. Not for folders."""
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    for each in ("state", "src", "keys", "hooks"):
        (tmp_path / each).mkdir()
    (tmp_path / "hooks" / "look.py").touch()
    (tmp_path / "linked").symlink_to(tmp_path / "state")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(place, rules, asked, *more):
    (place / "settings.toml").write_text(rules + SETTINGS)

    def answer(question):
        asked.append(question)
        return "deny"

    return Runtime.open(config="settings.toml", tools=[run, write_file, read_file, *more], approve=answer)


@pytest.mark.parametrize("rules", [BROAD, '[permissions]\nrules = "starter"\n'], ids=["broad", "starter"])
async def test_no_rule_lets_a_command_reach_the_files_of_the_runtime_unasked(place, rules):
    asked = []
    async with opened(place, rules, asked) as rt:
        unasked = [each for each in REACHING if (await rt.call("run", {"command": each})).ok]
        assert unasked == []
        assert {*REACHING} == {each.shown["command"] for each in asked}
        assert [each for each in HARMLESS if not (await rt.call("run", {"command": each})).ok] == []


async def test_a_command_that_adds_a_folder_to_git_is_asked_about_unless_git_ignores_the_store(place):
    asked, ignore = [], place / ".gitignore"
    commands = ("git add -A", "git add .", "git add -N src state", "git -C state add --all", "git add src/a.py src")

    async def asked_about(*lines):
        asked.clear()
        for each in lines:
            await rt.call("run", {"command": each})
        return [each.shown["command"] for each in asked]

    async with opened(place, BROAD, asked) as rt:
        await rt.call("read_file", {"path": "src/a.py"})
        assert await asked_about(*commands) == [*commands[:4]]
        ignore.write_text("# stores\n*.db*\n/large/\n!.vscode/settings.json\n")
        assert await asked_about(*commands) == []
        assert await asked_about("echo '!*.db' >> .gitignore && git add -A") != []
        ignore.write_text("*.db*\n!journal.db\n")
        assert await asked_about(*commands) == [*commands[:4]]


@pytest.mark.parametrize(
    ("name", "path", "is_asked"),
    [
        ("read_file", "state/journal.db", True),
        ("read_file", "linked/journal.db-wal", True),
        ("read_file", "STATE/Journal.DB", True),
        ("read_file", "large/sha256/ab/cd", True),
        ("read_file", "keys/forge-ada", True),
        ("read_file", "settings.toml", True),
        ("write_file", "hooks/look.py", True),
        ("write_file", "hooks/other.py", False),
        ("read_file", ".", False),
        ("read_file", "src/a.py", False),
        ("write_file", ".", True),
        ("write_file", "state", True),
        ("write_file", "src/a.py", False),
    ],
)
async def test_a_path_argument_that_reaches_the_files_of_the_runtime_is_asked_about(place, name, path, is_asked):
    asked = []
    async with opened(place, BROAD, asked) as rt:
        result = await rt.call(name, {"path": path})
    assert (len(asked), result.ok) == (int(is_asked), not is_asked)


TEXT, OBJECT = {"type": "string"}, {"type": "object"}


def members(**properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


def listed(items):
    return {"type": "array", "items": items}


EDITOR = members(path=TEXT, edits=listed(members(oldText=TEXT, newText=TEXT)))
WRITER = members(files=listed(members(path=TEXT, content=TEXT)))
OPTIONAL = members(files={"anyOf": [listed({"$ref": "#/$defs/File"}), {"type": "null"}]}) | {
    "$defs": {"File": {"type": "object", "properties": {"path": TEXT, "content": TEXT}}}
}
LOOSE = members(files=listed(OBJECT))
OPEN = {"type": "object", "additionalProperties": True}


@pytest.mark.parametrize(
    ("schema", "arguments", "is_asked"),
    [
        (EDITOR, {"path": "src/a.py", "edits": [{"oldText": "", "newText": "see state/journal.db"}]}, False),
        (EDITOR, {"path": "state/journal.db", "edits": [{"oldText": "a", "newText": "b"}]}, True),
        (WRITER, {"files": [{"path": "src/a.py", "content": "state/journal.db\nhas the calls"}]}, False),
        (WRITER, {"files": [{"path": "src/a.py", "content": "a"}, {"path": "settings.toml", "content": ""}]}, True),
        (OPTIONAL, {"files": [{"path": "src/a.py", "content": "a"}]}, False),
        (OPTIONAL, {"files": [{"path": "state/journal.db", "content": "a"}]}, True),
        (LOOSE, {"files": [{"path": "src/a.py", "content": "%ff" * 9000}]}, False),
        (LOOSE, {"files": [{"name": "a.py", "content": "a" * 9000, "mode": 7}]}, False),
        (LOOSE, {"files": [{"name": "state/journal.db", "content": "a" * 9000}]}, True),
        (LOOSE, {"files": [{"of": [{"any": {"name": "keys/forge-ada"}}]}]}, True),
        (OPEN, {"files": [{"path": "src/a.py", "content": "a"}]}, False),
        (OPEN, {"files": [{"path": "state/journal.db", "content": "a"}]}, True),
        (OPEN, {"path": "state/journal.db"}, True),
        (OPEN, {"command": "cat state/journal.db"}, True),
    ],
)
async def test_a_path_in_a_list_of_objects_or_an_undeclared_argument_is_asked_about_if_it_reaches_those_files(
    place, schema, arguments, is_asked
):
    async def accept(**_: object) -> str:
        """Accept everything."""
        return "done"

    asked = []
    async with opened(place, BROAD, asked, make_tool("edit", schema, accept, namespace="shop")) as rt:
        result = await rt.call("edit", arguments)
    assert (len(asked), result.ok) == (int(is_asked), not is_asked)


MOVER = members(source=TEXT, destination=TEXT, note=TEXT)


@pytest.mark.parametrize(
    ("arguments", "is_read_only", "is_asked"),
    [
        ({"source": "state/journal.db", "destination": "src/x"}, False, True),
        ({"source": "state/journal.db"}, True, True),
        ({"source": "{here}/state/journal.db-wal"}, True, True),
        ({"source": " state/journal.acme.db"}, True, True),
        ({"source": "STATE\\Journal.DB"}, True, True),
        ({"source": "large/sha256/ab/cd"}, True, True),
        ({"source": "linked/journal.db"}, True, True),
        ({"source": "keys/forge-ada"}, True, True),
        ({"source": "file://{here}/settings.toml"}, True, True),
        ({"source": "file://localhost{here}/state/journal.db"}, True, True),
        ({"source": "file://state/journal.db"}, True, True),
        ({"source": "FILE:state/journal.db?mode=ro"}, True, True),
        ({"source": "file:state%2Fjournal%2edb?mode=ro#x"}, True, True),
        ({"source": "sqlite:state/journal.db"}, True, True),
        ({"source": "sqlite:///state/journal.db?mode=ro"}, True, True),
        ({"source": "sqlite:///{here}/state/journal.db"}, True, True),
        ({"source": "jdbc:sqlite:{here}/state/journal.db"}, True, True),
        ({"source": "view-source:file://{here}/settings.toml"}, True, True),
        ({"source": "@state/journal.db"}, True, True),
        ({"source": "note: state/journal.db"}, True, False),
        ({"source": "src/a.py", "destination": "state"}, False, True),
        ({"source": "src/a.py", "destination": "file://{here}/state/"}, False, True),
        ({"source": "src/.."}, False, True),
        ({"source": "."}, True, False),
        ({"source": "state"}, True, False),
        ({"source": "src/a.py", "destination": "src/b.py", "note": "moved from state/journal.db"}, False, False),
        ({"source": "src/journal.db", "note": "50% of state"}, False, False),
        ({"source": "https://example.org/state/journal.db"}, False, False),
    ],
)
async def test_a_text_that_is_the_path_or_uri_of_a_file_of_the_runtime_is_asked_about_whatever_argument_has_it(
    place, arguments, is_read_only, is_asked
):
    async def accept(**_: object) -> str:
        """Accept everything."""
        return "done"

    asked = []
    mover = make_tool("move", MOVER, accept, namespace="shop", read_only=is_read_only, open_world=False)
    given = {name: text.replace("{here}", str(place)) for name, text in arguments.items()}
    async with opened(place, BROAD, asked, mover) as rt:
        result = await rt.call("move", given)
    assert (len(asked), result.ok) == (int(is_asked), not is_asked)


@pytest.mark.parametrize(
    ("arguments", "is_asked"),
    [
        ({"tree": {"state/journal.db": "new"}}, True),
        ({"any": [["a", {"deep": "state/journal.db"}]]}, True),
        ({"state": "open", "tree": {"state": "new"}}, False),
        ({"any": [f"state/journal.db.{number}" for number in range(200)]}, True),
    ],
)
async def test_names_of_members_and_nested_texts_are_asked_about_if_they_are_paths_of_those_files(
    place, arguments, is_asked
):
    async def accept(**_: object) -> str:
        """Accept everything."""
        return "done"

    asked = []
    async with opened(place, BROAD, asked, make_tool("edit", OPEN, accept, namespace="shop")) as rt:
        result = await rt.call("edit", arguments)
    assert (len(asked), result.ok) == (int(is_asked), not is_asked)


@pytest.mark.parametrize(("server", "port"), [("", 8642), ("[server]\nport = 9100\n", 9100)])
async def test_a_command_that_reads_the_journal_from_the_server_of_the_settings_is_asked_about(place, server, port):
    asked = []
    lines = [
        f"curl -s http://localhost:{port}/v1/calls",
        f"curl -s 127.0.0.1:{port}/v1/events",
        f"cd src && curl -s localhost:{port}/v1/calls | jq .",
    ]
    async with opened(place, '[permissions]\nrules = "starter"\n' + server, asked) as rt:
        assert [each for each in lines if (await rt.call("run", {"command": each})).ok] == []
        assert [each.shown["command"] for each in asked] == lines
        assert (await rt.call("run", {"command": "curl -s http://localhost:3000/health"})).ok


async def test_the_tokens_and_trust_of_the_user_are_asked_about_if_one_settings_file_is_named(place):
    asked, folder = [], user_folder()
    async with opened(place, BROAD, asked) as rt:
        for path in (folder / "mcp-tokens" / "a.json", folder / "agenttool.toml"):
            assert not (await rt.call("read_file", {"path": str(path)})).ok
    assert len(asked) == 2


async def test_a_child_runtime_asks_about_the_files_of_the_runtime(place):
    asked = []
    async with opened(place, BROAD, asked) as rt:
        child = rt.child(await rt.surface())
        assert not (await child.call("run", {"command": "cat state/journal.db"})).ok
    assert len(asked) == 1


async def test_a_tenant_cannot_reach_the_store_of_another(place):
    asked = []

    def answer(question):
        asked.append(question.shown)
        return "deny"

    rules = [EVERYTHING]
    async with Runtime.open(
        store=place / "state" / "journal.acme.db", tenant="acme", tools=[run], rules=rules, approve=answer
    ) as rt:
        for each in ("state/journal.db", "state/journal.other.db-payloads/x"):
            assert not (await rt.call("run", {"command": f"cat {each}"})).ok
    assert len(asked) == 2
