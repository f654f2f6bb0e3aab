"""A provider that is none of ours, looked at from outside."""

import pytest

from agenttool.rap.check import open_check


@pytest.mark.slow
async def test_the_provider_in_node_keeps_what_runtimes_count_on(node_provider):
    async with open_check(node_provider().url) as look:
        found = await look.findings()
    assert [(each.expectation, each.detail) for each in found if each.is_met is False] == []
    assert len([each for each in found if each.is_met]) >= 8
