"""A provider that is none of ours, looked at from outside."""

import pytest

from agenttool.rap.checking import looking_at


@pytest.mark.slow
async def test_the_provider_in_node_keeps_what_runtimes_count_on(node_provider):
    async with looking_at(node_provider().url) as look:
        found = await look.findings()
    assert [(each.promise, each.told) for each in found if each.is_kept is False] == []
    assert len([each for each in found if each.is_kept]) >= 8
