"""The server answers as `/openapi.json` says: schemathesis sends what the document allows, and what it does not."""

import subprocess
import sys
from pathlib import Path

import pytest
from served_runtime import Served

from agenttool.ports.identity import AccessRole

pytestmark = pytest.mark.soak

CACHE = Path(__file__).parents[2] / "build" / "schemathesis"
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
BOUND_S = 900


@pytest.fixture(scope="module")
def schemathesis():
    """Install the program into an environment of its own, because its packages are no others' business."""
    if not (CACHE / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", CACHE], check=True)
        subprocess.run([CACHE / "bin" / "pip", "install", "-q", "schemathesis>=4,<5"], check=True, timeout=BOUND_S)
        (CACHE / "done").touch()
    return CACHE / "bin" / "schemathesis"


@pytest.mark.parametrize("roles", [*([each] for each in AccessRole), [*AccessRole]], ids="+".join)
def test_no_request_gets_an_answer_that_the_document_does_not_list(schemathesis, serve_app, tmp_path, roles):
    with Served(serve_app) as served:
        words = ["run", f"{served.url}/openapi.json", "-H", f"Authorization: Bearer {served.key('agent:fuzz', *roles)}"]
        words += ["--exclude-path", "/v1/events", "--phases", "coverage,fuzzing", "--checks", ",".join(CHECKS)]
        words += ["--max-examples", "20", "--max-time", "120", "--request-timeout", "30", "--no-color"]
        done = subprocess.run(
            [schemathesis, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=BOUND_S
        )
    assert done.returncode == 0, done.stdout
    assert "Tested: 33" in done.stdout, done.stdout
