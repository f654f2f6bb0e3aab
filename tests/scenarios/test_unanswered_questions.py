"""`agenttool serve` with a server on stdio: a caller that never answers delays no other caller of the HTTP API."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from project_settings import auditor_key, write_settings
from served_process import serving

pytestmark = pytest.mark.slow

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"
NAMES = ["ada", "bob", "cleo", "dan", "eve"]
BOUND_S = 150

SETTINGS = f"""
[store]
url = "sqlite:state.db"

[[rules]]
name = "old"
behavior = "allow"
tool = "old.*"

[[rules]]
name = "new"
behavior = "allow"
tool = "new.*"

[sources.old]
kind = "mcp"
command = {json.dumps(sys.executable)}
args = ["-I", "-S", {json.dumps(str(FIXTURE))}]

[sources.new]
kind = "mcp"
command = {json.dumps(sys.executable)}
args = ["-I", "-S", {json.dumps(str(FIXTURE))}, "modern=1"]
"""

upstreams = pytest.mark.parametrize("upstream", ["old", "new"])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Serve both servers in a process of its own; give its URL and a key for each caller."""
    folder = tmp_path_factory.mktemp("served")
    write_settings(folder / "agenttool.toml", SETTINGS)
    with serving(folder) as (_, url):
        headers = {name: key_of(folder, name) for name in NAMES}
        yield SimpleNamespace(url=url, headers={**headers, "auditor": auditor_key(folder)})


def key_of(folder, name):
    words = ["-m", "agenttool", "keys", "add", f"user:{name}", "--role", "caller", "--json"]
    made = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True)
    return {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}


async def until(look):
    """Call `look` until it returns something."""
    while not (found := await look()):  # noqa: ASYNC110 -- another process changes it
        await asyncio.sleep(0.05)
    return found


@upstreams
async def test_over_the_http_api_a_caller_that_never_answers_delays_no_other_caller(served, upstream):
    async with httpx2.AsyncClient(base_url=served.url, timeout=BOUND_S) as http, asyncio.timeout(BOUND_S):

        async def send(method, path, name, **members):
            reply = await http.request(method, path, headers=served.headers[name], **members)
            assert reply.is_success, reply.text
            return reply.json()

        async def open_questions():
            return (await send("GET", "/v1/approvals", "auditor"))["items"]

        asking = {"tool": f"{upstream}.ask", "arguments": {}}
        first = await send("POST", "/v1/calls", "ada", json=asking, params={"wait": 0})
        await until(open_questions)
        adding = {"tool": f"{upstream}.add", "arguments": {"a": 1, "b": 2}}
        others = [send("POST", "/v1/calls", name, json=adding, params={"wait": 60}) for name in NAMES[1:]]
        ended = await asyncio.gather(*others)
        assert [each["result"]["structured_content"] for each in ended] == [{"sum": 3}] * 4
        call = f"/v1/calls/{first['invocation_id']}"
        assert (await send("GET", call, "ada"))["status"] == "running"
        await send("POST", f"{call}/cancel", "ada")
