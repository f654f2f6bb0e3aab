"""What every test may use: the requirement mark, and the project's ledgers when they are at hand."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail: properties are about what happens, never about how long it took.
settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("project")

pytest_plugins = ["agenttool.conformance.pytest_plugin"]

SHARED = Path(__file__).resolve().parents[2] / "shared"
NOT_COMPARED = "packaged data was not compared with the project's ledgers: no folder 'shared' beside the repository"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the repository that holds the ledgers; a test that needs it is skipped without it."""
    if not SHARED.is_dir():
        pytest.skip(NOT_COMPARED)
    return SHARED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it even where nobody reads the reasons of skipped tests."""
    if not SHARED.is_dir():
        terminalreporter.write_line(NOT_COMPARED, yellow=True)
