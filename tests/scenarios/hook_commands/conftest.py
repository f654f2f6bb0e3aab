"""A settings file with hook commands beside it, and a few tools to call."""

import json
from typing import Annotated

import pytest

from agenttool import Progress, Runtime, Sensitive, tool
from agenttool.codec import to_json


@tool
async def greet(name: str, pin: Annotated[str, Sensitive] = "0000-0000"):
    """Greet someone. Not for farewells."""
    yield Progress("thinking")
    yield f"hello {name}"


@tool
async def fail(name: str) -> str:
    """Fail. Not for success."""
    raise RuntimeError(f"no {name}")


@tool(max_inline_chars=100)
async def dump(name: str) -> str:
    """Return a lot. Not for a little."""
    return f"{name}\n" * 1000


class Records(list):
    """Everything that a run left behind."""

    def of(self, kind):
        return [record for record in self if record["record_type"] == kind]


class Folder:
    """Where the settings and the commands lie."""

    def __init__(self, place):
        self.place = place
        self.text = '[[rules]]\nbehavior = "allow"\ntool = "local.*"\n'

    def hook(self, name, script, *, event="pre_tool_use", more=""):
        """Add a hook that is a shell script."""
        (self.place / f"{name}.sh").write_text(script)
        table = {"name": name, "event": event, "command": ["sh", f"{name}.sh"]}
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        self.text += "\n".join(["[[hooks]]", *lines, more, ""])

    def says(self, name, answer, *, event="pre_tool_use"):
        """Add a hook that always gives the same answer."""
        (self.place / f"{name}.json").write_text(json.dumps(answer))
        self.hook(name, f"cat {name}.json", event=event)

    def open(self, *, tools=(greet, fail, dump), **options):
        """Open a runtime with these settings."""
        file = self.place / "agenttool.toml"
        file.write_text(self.text)
        return Runtime.open(config=file, tools=tools, **{"approve": "wait", **options})

    async def run(self, name="greet", *, hooks=(), approve="wait", tools=(greet, fail, dump), **arguments):
        """Make one call; give its result, and everything that is on record afterwards."""
        async with self.open(hooks=hooks, approve=approve, tools=tools) as rt:
            result = await rt.call(name, {"name": "ada", **arguments}, surface=await rt.surface())
            return result, Records([to_json(record) async for record in rt.journal.export()])


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


@pytest.fixture
def greeting():
    """The records of the tool `greet`."""
    return greet.declared
