"""What a settings file would do is listed completely, before the user trusts it."""

import pytest

from agenttool.config import Config, ServerSetting, Setting, StoreSetting
from agenttool.config.effects import effects_line, effects_of
from agenttool.config.reader import SettingsFile
from agenttool.records import RuleSource

EVERYTHING = """
[sources.files]
kind = "mcp"
command = "npx"
args = ["-y", "a server"]
env = { NODE_OPTIONS = "--require evil", TOKEN = "Bearer ${credentials.github}" }
pass_env = ["AWS_KEY"]
[sources.docs]
kind = "mcp"
url = "https://ada:secret@docs.example/mcp?key=secret"
headers = { Authorization = "${credentials.own}" }
trust = true
[sources.builds]
kind = "rap"
url = "https://builds.example"
token_env = "BUILDS_TOKEN"
allow = ["10.0.0.0/8"]
[sources.local]
kind = "python"
module = "tools_of_project"
[sources.other]
kind = "clock"
[[hooks]]
name = "guard"
event = "pre_tool_use"
command = "python3 guard.py"
trusted = true
[credentials.own]
command = ["pass", "show"]
[credentials.crm.actors]
"user:ada" = { file = "~/.ssh/id" }
"user:bob" = { env = "BOB" }
[credentials.github2]
keyring = { service = "s", username = "u" }
[permissions]
mode = "accept_edits"
workspace = "/"
rules = "starter"
[[rules]]
name = "all"
behavior = "allow"
tool = "*"
[store]
url = "sqlite:calls.db"
payloads = "s3://elsewhere"
[server]
host = "0.0.0.0"
token_env = "KNOWN"
origins = ["https://page.example"]
[mcp.support]
tools = ["files.*"]
[search]
model = "/models/x"
"""


@pytest.fixture
def effects(tmp_path):
    """Return a function that lists what a text would do, for a user with two credentials and a source."""

    def found(text):
        (tmp_path / "agenttool.toml").write_text(text)
        own = Setting(members={"env": "X"}, source=RuleSource.USER_SETTINGS)
        user = Config(
            credentials={"github": own, "crm": own},
            sources={"files": own},
            store=StoreSetting(url="sqlite:audit.db", folder=tmp_path, place=""),
            server=ServerSetting(token_env="MINE"),  # noqa: S106 -- the name of a variable
        )
        written = SettingsFile.read(tmp_path / "agenttool.toml")
        return effects_of(written, user), effects_line(written, user)

    return found


def test_every_command_server_credential_and_permission_is_listed_and_no_secret_is(effects):
    listed, line = effects(EVERYTHING)
    assert [f"{each.verb} {each.what}" for each in listed] == [
        "start npx -y 'a server' (sets NODE_OPTIONS, TOKEN)",
        "start the source other of the kind clock",
        "start python3 guard.py",
        "start pass show",
        "import the module tools_of_project",
        "connect to https://docs.example",
        "connect to https://builds.example",
        "use the credential github (yours)",
        "use the credential own",
        "use any credential that its tools ask for, also yours: crm, github",
        "read the file ~/.ssh/id",
        "read the variable BOB",
        "read the keyring entry s u",
        "read the variable AWS_KEY",
        "read the variable BUILDS_TOKEN",
        "replace your [store]",
        "replace your [server] token_env",
        "replace your [sources.files]",
        "replace your [credentials.crm]",
        "allow docs to say which of its tools only read",
        "allow builds to be at the private addresses 10.0.0.0/8",
        "allow guard to see sensitive fields",
        "allow calls of * (rule all)",
        "allow changes to files of the workspace without a question (mode accept_edits)",
        "allow paths below / (workspace)",
        "store calls in sqlite:calls.db and s3://elsewhere",
        "serve on 0.0.0.0:8642",
        "serve web pages of https://page.example",
        "serve the profile support to MCP clients",
        "load the search model /models/x",
    ]
    assert "secret" not in line
    assert "\n" not in line
    assert len(line) < 400


def test_a_command_cannot_hide_behind_control_characters(effects):
    listed, line = effects(
        '[[hooks]]\nname = "g"\nevent = "pre_tool_use"\ncommand = ["rm\\u001b[2K\\r\\u202e", "x\\ny"]\n'
    )
    assert [each.what for each in listed] == ["'rm\\x1b[2K\\r\\u202e' 'x\\ny'"]
    assert line.isprintable()


def test_a_file_that_does_nothing_says_so(effects):
    assert effects("# nothing\n") == ([], "start no command and use no credential")


@pytest.mark.parametrize("url", ["http://[", "https://a b", "x", ""])
def test_an_invalid_address_is_no_crash(effects, url):
    (listed,), _ = effects(f'[sources.x]\nkind = "mcp"\nurl = "{url}"\n')
    assert listed.verb == "connect to"
