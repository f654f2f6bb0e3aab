"""A model's provider on this machine."""

import pytest
from scripted_provider import serve


@pytest.fixture
def provider():
    """Start a provider with its script: `with provider(replies) as server`."""
    return serve
