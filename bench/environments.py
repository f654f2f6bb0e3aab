"""An environment for each peer: they need versions that exclude one another, and some exclude ours."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

PLACE = Path(".venv-bench")
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
REQUIREMENTS = {
    "bm25": "bm25s PyStemmer",
    "fastmcp_adding": "fastmcp",
    "fastmcp_client": "fastmcp",
    "fastmcp_search": "fastmcp",
    "langchain_tool": "langchain-core",
    "mcp_session": "mcp",
    "openai_agents": "openai-agents",
    "pydantic_ai_manager": "pydantic-ai-slim",
}
"""What to install for a contestant; whoever is not named runs in this environment."""

SHARED = {"fastmcp_adding": "fastmcp_client", "fastmcp_search": "fastmcp_client"}
"""Whose environment serves another, too."""


class Missing(Exception):
    """A contestant that cannot take part, and why."""


def interpreter(contestant: str) -> Path:
    """Give the Python that can run a contestant; on first use its environment is made.

    Raises:
        Missing: what it needs cannot be installed here.
    """
    requirement = REQUIREMENTS.get(contestant)
    if requirement is None:
        return Path(sys.executable)
    environment = PLACE / SHARED.get(contestant, contestant)
    python, stamp = environment / "bin" / "python", environment / "installed"
    wanted = hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(environment, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(environment)])
        install = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-c", str(CONSTRAINTS)]
        _run([str(python), *install, *requirement.split()])
        stamp.write_text(wanted)
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(done.stderr.strip().rpartition("\n")[2])
