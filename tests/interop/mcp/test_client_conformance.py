"""The official conformance suite of MCP against our client; it is installed once into a folder that git ignores."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache" / "conformance"
CLIENT = ROOT / "tests" / "support" / "mcp_conformance_client.py"
SUITE = "@modelcontextprotocol/conformance"

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm"),
]

CORE = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
]
AUTH = [
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
    "client-credentials-basic",
]


@pytest.fixture(scope="session")
def suite() -> tuple[list[str], dict[str, str]]:
    """Install Node 22, which the suite needs, and the suite; return its command and environment."""
    path = f"{CACHE / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    if not (CACHE / "done").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        for package in ("node@22", f"{SUITE}@0.2.0-alpha.12"):
            words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), package]
            subprocess.run(words, check=True, env=env)
        (CACHE / "done").touch()
    return ["node", str(CACHE / "node_modules" / SUITE / "dist" / "index.js")], env


@pytest.mark.parametrize("scenario", [*CORE, *(f"auth/{name}" for name in AUTH)])
def test_our_client_passes(suite, scenario):
    command, env = suite
    words = ["client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "--timeout", "120000"]
    run = subprocess.run([*command, *words], env=env, capture_output=True, text=True, check=False)
    output = run.stdout + run.stderr
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed", output)
    assert passed is not None, output
    assert int(passed[1]) == int(passed[2]) > 0
