"""Tenants: nothing of one is visible to another, by any route and any id."""

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starting import begin

from agenttool import Runtime, StoreError, tool
from agenttool.ports.identity import AccessRole
from agenttool.server import tenants as tenants_module
from agenttool.server.app import serve_runtime
from agenttool.server.grants import GrantKind
from agenttool.server.table import ROUTES
from agenttool.server.tenants import Tenant, is_tenant_name, tenant_store

HERE = {"base_url": "http://127.0.0.1:8642", "client": ("127.0.0.1", 50_000)}
MARK = "only-acme-knows-this"


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(namespace="text", read_only=True, open_world=False)
def repeat(text: str, times: int) -> str:
    """Repeat a text."""
    return "\n".join([text] * times)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory):
    """A server with two tenants; one of them has calls, an approval, stored output, a rule and keys."""
    file = tmp_path_factory.mktemp("tenants") / "calls.db"

    def open_runtime(tenant):
        return Runtime.open(store=f"sqlite:{tenant_store(file, tenant)}", tools=[send, repeat], approve="wait")

    @asynccontextmanager
    async def open_tenant(tenant):
        place = tenant_store(file, tenant)
        async with open_runtime(tenant) as rt, Tenant(rt, file=place).running() as opened:
            yield opened

    @asynccontextmanager
    async def lifespan(app):
        async with (
            open_runtime("default") as runtime,
            serve_runtime(runtime, file=file, open_tenant=open_tenant) as app.state.served,
        ):
            app.router.routes.append(Mount("", app=app.state.served))
            yield

    with TestClient(Starlette(lifespan=lifespan), **HERE) as http:
        headers = {}
        for tenant in ("acme", "other"):
            for name, roles in (("all", [*AccessRole]), ("caller", [AccessRole.CALLER])):
                grants = http.app.state.served.grants
                subject = f"{MARK if tenant == 'acme' else 'somebody'}:{name}"
                add = partial(grants.add, GrantKind.KEY, subject=subject, roles=roles, created_by="x", tenant=tenant)
                token, grant = http.portal.call(add)
                headers[tenant, name] = {"authorization": f"Bearer {token}"}
                headers[tenant, name, "id"] = grant.grant_id
        acme = headers["acme", "caller"]
        for arguments in ({"text": MARK, "times": 5000}, {"text": MARK, "times": 1}):
            http.post("/v1/calls", json={"tool": "repeat", "arguments": arguments}, headers=acme)
        http.post("/v1/calls", json={"tool": "send", "arguments": {"to": MARK}}, headers=acme)
        listed = http.get("/v1/calls", headers=headers["acme", "all"]).json()["items"]
        approvals = http.get("/v1/approvals", headers=headers["acme", "all"]).json()["items"]
        surface = http.post("/v1/surfaces", json={"reason": MARK}, headers=acme).json()["surface_id"]
        details = [http.get(f"/v1/calls/{each['invocation_id']}", headers=acme).json() for each in listed]
        digests = [each["digest"] for detail in details for each in detail["payloads"]]
        assert (len(listed), len(approvals), len(digests)) == (3, 1, 1)
        ids = {
            "invocation_id": [each["invocation_id"] for each in listed],
            "approval_id": [each["approval_id"] for each in approvals],
            "digest": digests,
            "surface_id": [surface],
            "key_id": [headers["acme", "all", "id"]],
            "session_id": [headers["acme", "all", "id"]],
            "name": ["mail.send"],
        }
        yield http, headers, ids


BODIES = {
    "/v1/calls": {"tool": "repeat", "arguments": {"text": "x", "times": 1}},
    "/v1/batches": {"calls": [{"tool": "repeat", "arguments": {"text": "x", "times": 1}}]},
    "/v1/approvals/{approval_id}": {"answer": "allow", "shown_digest": "sha256:0"},
    "/v1/approvals/{approval_id}/check": {"input": {}},
    "/v1/search": {"query": "letter"},
    "/v1/surfaces": {},
    "/v1/policy/try": {"tool": "send", "arguments": {"to": "x"}},
    "/v1/policy/matches": {"rule": {"tool": "text.repeat"}},
    "/v1/login": {"token": "atl_x_y"},
    "/v1/keys": {"subject": "x", "roles": ["caller"]},
}


@settings(deadline=None)
@given(data=st.data())
def test_nothing_of_a_tenant_is_visible_to_another(tenants, data):
    http, headers, ids = tenants
    route = data.draw(st.sampled_from([each for each in ROUTES if each.path != "/v1/events"]))
    names = {name: data.draw(st.sampled_from(ids[name])) for name in route.names}
    who = data.draw(st.sampled_from(["all", "caller"]))
    wanted = data.draw(
        st.sampled_from([{}, {"containing": MARK}, {"tool": "*"}]) if route.path == "/v1/calls" else st.just({})
    )
    body = BODIES.get(route.path) if route.has_body else None
    reply = http.request(
        route.method,
        route.path.format(**names),
        json=body,
        params=wanted if route.method == "GET" else {},
        headers=headers["other", who],
    )
    assert reply.status_code < 500
    assert MARK not in reply.text
    for name in ("invocation_id", "approval_id", "digest", "surface_id"):
        for each in ids[name]:
            assert each not in reply.text or each in json.dumps(names), "an id may come back only if it was sent"


def test_a_tenant_still_has_what_another_tried_to_change(tenants):
    http, headers, ids = tenants
    left = http.get("/v1/approvals", headers=headers["acme", "all"]).json()["items"]
    assert [each["approval_id"] for each in left] == ids["approval_id"]
    assert http.get("/v1/me", headers=headers["acme", "all"]).json()["tenant"] == "acme"


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a.b", "-a", "a" * 64, "ä"])
def test_a_tenant_name_cannot_leave_the_folder_of_the_store(name):
    assert not is_tenant_name(name)


async def test_the_calls_of_a_tenant_continue_although_its_store_could_not_be_opened_before(tmp_path, monkeypatch):
    monkeypatch.setattr(tenants_module, "RECOVER_EVERY_S", 0.05)
    file, attempts = tmp_path / "calls.db", []
    acme = f"sqlite:{tenant_store(file, 'acme')}"

    @asynccontextmanager
    async def open_tenant(tenant):
        attempts.append(tenant)
        if len(attempts) < 3:
            raise StoreError("the disk is full; free some space")
        async with Runtime.open(store=acme, tools=[send]) as rt, Tenant(rt, file=file).running() as opened:
            yield opened

    async with Runtime.open(store=acme, tools=[send]) as rt:
        call = await begin(rt, "send", {"to": "ada"})
        (question,) = await rt.approvals.list()
    async with Runtime.open(store=f"sqlite:{file}") as runtime:
        await runtime.inspection.documents.put("tenant", "acme", b"{}")
        async with serve_runtime(runtime, file=file, open_tenant=open_tenant), Runtime.open(store=acme) as other:
            await other.approvals.decide(question, "allow")
            async with asyncio.timeout(60):
                result = await other.calls.get(call.invocation_id).result()
    assert (result.text, attempts) == ("sent to ada", ["acme"] * 3)
