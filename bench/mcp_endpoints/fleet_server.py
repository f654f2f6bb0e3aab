"""A server with many tools, without the SDK: `fleet_server.py NUMBER COUNT`. It starts in milliseconds."""

import json
import sys

NUMBER, COUNT = sys.argv[1:3]
_TEXT = {"type": "string", "description": "What it is about, in a few words."}
_LIMIT = {"type": "integer", "minimum": 1, "maximum": 100, "description": "The most entries to return."}
_SCHEMA = {"type": "object", "properties": {"text": _TEXT, "limit": _LIMIT}, "required": ["text"]}
_META = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def definitions() -> list[dict[str, object]]:
    """Return the tools, whose names are unique over all servers."""
    return [
        {
            "name": f"s{NUMBER}_tool_{each}",
            "description": f"Look up entries of collection {each} in system {NUMBER}, and return the best ones.",
            "inputSchema": _SCHEMA,
        }
        for each in range(int(COUNT))
    ]


def answer(method: str, params: dict[str, object]) -> dict[str, object] | None:
    """Return the result of a request; None if there is no such method."""
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **_META}
    if method == "initialize":
        info = {"name": "fleet", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": definitions(), **_META}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"{NUMBER} {params['name']}"}], "resultType": "complete"}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        found = answer(message["method"], message.get("params") or {})
        reply = {"error": {"code": -32601, "message": "no such method"}} if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
