"""The client of the official conformance suite: a runtime with one MCP server, whose tools are all called.

The suite starts `python mcp_conformance_client.py URL` for each scenario, and names it in `MCP_CONFORMANCE_SCENARIO`.
"""

import asyncio
import json
import os
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.shared.auth import AuthorizationCodeResult

from agenttool import Allow, McpServer, Runtime
from agenttool.adapters.mcp.settings import OAuthSettings
from agenttool.records import ToolDeclaration

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
METADATA_URL = "https://conformance-test.local/client-metadata.json"


class HeadlessLogin:
    """Grants access by following the page's redirect."""

    async def open(self, url):
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        found = {key: values[0] for key, values in parse_qs(urlsplit(response.headers["location"]).query).items()}
        self.found = AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    async def result(self):
        return self.found


def sample(schema):
    """Return a value that fits a simple schema."""
    if "default" in schema or "const" in schema:
        return schema.get("default", schema.get("const"))
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {name: sample(each) for name, each in schema.get("properties", {}).items()}
    return {"integer": 3, "number": 3, "boolean": True, "array": [], "null": None}.get(kind, "text")


def given(arguments):
    """Leave out nulls, which the schemas of the suite do not allow."""
    return {name: value for name, value in arguments.items() if value is not None}


def settings_of(url):
    oauth = None
    if SCENARIO.startswith("auth/"):
        known = {name: CONTEXT[name] for name in ("client_id", "client_secret") if name in CONTEXT}
        grant = "client_credentials" if "client-credentials" in SCENARIO else "authorization_code"
        if grant == "client_credentials":  # an owner knows the issuer; the suite chooses it for each run
            parts = urlsplit(url)
            page = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
            known["issuer"] = httpx2.get(page).json()["authorization_servers"][0]
        oauth = OAuthSettings(grant=grant, client_metadata_url=METADATA_URL, **known)
    return McpServer("c", url=url, oauth=oauth, resources=False)


async def main():
    rt = Runtime.open(sources=[settings_of(sys.argv[-1])], approve=lambda _: Allow())
    source = rt.sources.get("c")
    source.login = HeadlessLogin() if SCENARIO.startswith("auth/") else None
    async with rt:
        await source.check()
        print(await rt.sources.status(), file=sys.stderr)
        declared = [each async for each in rt.journal.export() if isinstance(each, ToolDeclaration)]
        calls = [(each["name"], given(each.get("arguments", {}))) for each in CONTEXT.get("toolCalls", ())]
        tools = [each for each in declared if each.namespace == "c" and each.name != "ask_user"]
        calls = calls or [(each.name, sample(each.input_contract.model_input_schema)) for each in tools]
        if SCENARIO == "json-schema-2020-12-preservation":  # the suite asks for the schema as the client received it
            schemas = {each.name: each.input_contract.model_input_schema for each in tools}
            calls = [("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})]
        for name, arguments in calls:
            result = await rt.call(f"c.{name}", arguments)
            print(name, arguments, result, result.error and result.error.message, file=sys.stderr)
        return 0 if (await rt.sources.status())[0].is_ready else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
