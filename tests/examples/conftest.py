"""A model's provider on this machine."""

import pytest

from agenttool.testing import serve_model


@pytest.fixture
def provider():
    """Start a provider with its script: `with provider(replies) as server`."""
    return serve_model
