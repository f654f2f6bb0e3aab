"""Contract tests of the store ports: one list of promises per port, each a coroutine that asserts.

A promise takes a function that opens the store. Opening it twice opens the same location twice. Run the promises with
a store of your own:

    @pytest.mark.parametrize("promise", LOG_PROMISES, ids=lambda promise: promise.__name__)
    def test_the_log_keeps_its_promises(promise, tmp_path):
        asyncio.run(promise(lambda: open_my_log(tmp_path)))
"""

from agenttool.testing.contracts.logs import DURABLE_LOG_PROMISES, LOG_PROMISES
from agenttool.testing.contracts.open_calls import OPEN_CALLS_PROMISES
from agenttool.testing.contracts.payloads import PAYLOAD_PROMISES
from agenttool.testing.contracts.shelves import SHELF_PROMISES

__all__ = ["DURABLE_LOG_PROMISES", "LOG_PROMISES", "OPEN_CALLS_PROMISES", "PAYLOAD_PROMISES", "SHELF_PROMISES"]
