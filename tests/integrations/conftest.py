"""Environments with the real frameworks: made on first use in a cache folder, then reused."""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-frameworks"
REQUIREMENTS = {
    "langchain": ["langchain>=1.4,<2", "langchain-openai>=1,<2", "langgraph>=1.2,<2"],
    "pydantic_ai": ["pydantic-ai-slim[openai]>=2,<3"],
    "openai_agents": ["openai-agents>=0.24,<1"],
}


def environment(name):
    """Return the interpreter of an environment with a framework; agenttool and its own packages come from here."""
    ENVIRONMENTS.mkdir(exist_ok=True)
    folder, wanted = ENVIRONMENTS / name, hashlib.sha256(repr(REQUIREMENTS[name]).encode()).hexdigest()
    python, stamp = folder / "bin" / "python", folder / "installed"
    with (ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            install = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install", *REQUIREMENTS[name]]
            subprocess.run([str(python), *install], check=True)
            (site,) = folder.glob("lib/python*/site-packages")
            # These come after the packages of the environment, which so has the versions that the framework wants.
            here = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
            (site / "agenttool.pth").write_text(f"{ROOT / 'src'}\n{here}\n")
            stamp.write_text(wanted)
    return python


@pytest.fixture
def interpreter():
    """Return the function that returns the interpreter of a framework's environment."""
    return lambda name: str(environment(name))


@pytest.fixture
def run_agent():
    """Run a script of `agents` with its framework; return what it printed as JSON."""

    def run(name, *arguments):
        script = Path(__file__).parent / "agents" / f"{name}_agent.py"
        command = [str(environment(name)), str(script), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
