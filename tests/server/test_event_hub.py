"""Events of a journal for streams: a caller follows its own calls."""

import json

import httpx2
import pytest

from agenttool import Runtime, tool
from agenttool.ports.identity import AccessRole
from agenttool.server.grants import GrantKind


@tool(namespace="math", read_only=True, open_world=False)
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@pytest.mark.parametrize("role", [AccessRole.CALLER, AccessRole.AUDITOR])
async def test_a_caller_follows_its_own_calls_and_an_auditor_all(make_app, serve_app, tmp_path, role):
    file = tmp_path / "calls.db"
    app = make_app(lambda: Runtime.open(store=f"sqlite:{file}", tools=[double]), file=file)
    async with serve_app(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        roles = {"ann": [AccessRole.CALLER, role], "bob": [AccessRole.CALLER]}
        add = app.state.served.grants.add
        keys = {
            name: (await add(GrantKind.KEY, subject=name, roles=given, created_by="test"))[0]
            for name, given in roles.items()
        }
        headers = {name: {"authorization": f"Bearer {key}"} for name, key in keys.items()}
        made = {}
        for name in ("bob", "ann"):
            body = {"tool": "math.double", "arguments": {"number": 2}}
            made[name] = (await client.post("/v1/calls", json=body, headers=headers[name])).json()["invocation_id"]
        seen = []
        async with client.stream("GET", "/v1/events", params={"after": 0}, headers=headers["ann"]) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:") and "invocation_id" in line:
                    seen.append(json.loads(line.removeprefix("data:"))["invocation_id"])
                if made["ann"] in seen:
                    break
        assert set(seen) == ({made["ann"]} if role is AccessRole.CALLER else set(made.values()))
        refused = await client.get("/v1/calls", params={"limit": "many"}, headers=headers["ann"])
        assert (refused.status_code, refused.json()["reason"]) == (400, "bad_request")
        page = await client.get("/no/such/page", headers={"accept": "text/html"})
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert (await client.get("/no/such/page")).json()["reason"] == "not_found"
