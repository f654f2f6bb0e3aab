"""The official conformance suite of MCP against our client."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_suite import NODE, install_suite

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "tests" / "support" / "mcp_conformance_client.py"

pytestmark = pytest.mark.soak

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


@pytest.mark.parametrize("scenario", [*CORE, *(f"auth/{name}" for name in AUTH)])
def test_our_client_passes(scenario, tmp_path):
    command, env = [NODE, install_suite()], {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    words = ["client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "--timeout", "120000"]
    run = subprocess.run([*command, *words], env=env, capture_output=True, text=True, check=False)
    output = run.stdout + run.stderr
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed", output)
    assert passed is not None, output
    assert int(passed[1]) == int(passed[2]) > 0
