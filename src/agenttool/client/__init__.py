"""The client of the HTTP API for other processes: `Client`, and `AsyncClient` with the same methods.

```python
from agenttool.client import Client

with Client("http://127.0.0.1:8642", key="atk_…") as gateway:
    print(gateway.call("files.read_file", {"name": "welcome.txt"}).text)
```

A refused request, or one that the server does not answer, raises `GatewayError`.
A request is repeated after a failure only if that is safe: it changes nothing, or it has an idempotency key.
A request that makes a call or waits for one is repeated for about 30 seconds, which outlasts a restart of the server.
"""

from agenttool.client.client import AsyncClient as AsyncClient
from agenttool.client.client import CallFilters as CallFilters
from agenttool.client.client import Client as Client
from agenttool.client.client import GatewayEvent as GatewayEvent
from agenttool.client.client import json_value as json_value
from agenttool.client.client import result_of as result_of
from agenttool.errors import GatewayError as GatewayError
