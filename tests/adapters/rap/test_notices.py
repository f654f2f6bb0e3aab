"""A notice is sent once, and is not lost to a connection that its server had closed meanwhile."""

import asyncio
import json

import pytest

from agenttool import Runtime
from agenttool.adapters.rap.settings import RapSource


class Closing:
    """A server that answers one request on each connection, and closes it when the next one has come."""

    def __init__(self):
        self.url = ""
        self.got = []
        self.arrived = asyncio.Event()

    async def serve(self, reader, writer):
        for number in range(2):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                break
            length = [line[16:] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(length[0]) if length else 0)
            self.got.append((number, head.split()[1], body))
            if number == 0:
                writer.write(self._answer(head))
            self.arrived.set()
        writer.close()

    def _answer(self, head):
        tool = {"name": "probe", "description": "Probe.", "inputSchema": {"type": "object"}}
        manifest = {"name": "gh", "endpoint": f"{self.url}/invoke", "tools": [tool]}
        body = json.dumps(manifest).encode() if head.startswith("GET") else b""
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.requirement("RAP-300")
async def test_a_notice_that_meets_a_closed_connection_goes_out_on_another():
    host = Closing()
    async with await asyncio.start_server(host.serve, "127.0.0.1", 0) as server, asyncio.timeout(60):
        host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        source = RapSource(name="gh", url=host.url, allow=("127.0.0.1",))
        async with Runtime.open(sources=[source]) as rt:
            await rt.rap.close_thread("t1")
            while len(host.got) < 3:
                host.arrived.clear()
                await host.arrived.wait()
        notice = ("/close_thread", b'{"thread_id":"t1"}')
        assert [each[0] for each in host.got] == [0, 1, 0]
        assert [each[1:] for each in host.got[1:]] == [notice, notice]
