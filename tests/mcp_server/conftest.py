"""The revisions of the protocol that every test of the server runs on."""

import pytest
from mcp_clients import NEW, OLD


@pytest.fixture(params=[NEW, OLD])
def mode(request):
    return request.param
