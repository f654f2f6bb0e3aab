"""The official conformance suite of MCP against our client."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from npm_packages import mcp_suite, node_22

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "tests" / "support" / "mcp_conformance_client.py"

pytestmark = pytest.mark.soak

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
    "client-credentials-basic",
]
NEW_AUTH = [
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
]
BOTH = ["tools_call", "json-schema-2020-12-preservation", *(f"auth/{name}" for name in AUTH)]
SCENARIOS = {
    "2025-11-25": [*BOTH, "initialize", "elicitation-sep1034-client-defaults", "sse-retry"],
    "2026-07-28": [
        *BOTH,
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        *(f"auth/{name}" for name in NEW_AUTH),
    ],
}


@pytest.mark.parametrize(
    ("revision", "scenario"), [(revision, name) for revision, names in SCENARIOS.items() for name in names]
)
def test_our_client_passes(revision, scenario, tmp_path):
    command, env = [node_22(), mcp_suite()], {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    client = ["--command", f"{sys.executable} {CLIENT}", "--timeout", "120000"]
    words = ["client", *client, "--scenario", scenario, "--spec-version", revision, "--force"]
    run = subprocess.run([*command, *words], env=env, capture_output=True, text=True, check=False)
    output = run.stdout + run.stderr
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed", output)
    assert passed is not None, output
    assert int(passed[1]) == int(passed[2]) > 0
