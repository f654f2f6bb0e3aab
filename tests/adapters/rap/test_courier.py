"""A courier tells every ending as a reply, and goes nowhere it may not."""

import asyncio
import socket

import pytest

from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.forgery import Reach

HERE = Reach.of(["127.0.0.1"])


class Host:
    """A real listener on this machine that answers each request with the same bytes."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.writers = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self.writers:
            writer.close()

    async def _serve(self, reader, writer):
        self.writers.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
        self.requests.append((head.decode(), await reader.readexactly(length)))
        if self.answer is not None:
            writer.write(self.answer)
            await writer.drain()
            writer.close()


def answer(status, *headers, body=b""):
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def carried(host_answer, *, reach=HERE, path="/in?k=w%208", host="127.0.0.1", **options):
    async def carry():
        async with Host(host_answer) as listener:
            courier = Courier(reach, **options)
            reply = await courier.post(f"http://{host}:{listener.port}{path}", b'{"a":1}', {"X-Key": "v"})
            await courier.close()
            return reply, listener.requests

    return asyncio.run(carry())


def test_what_stands_behind_a_semicolon_is_part_of_the_url():
    _, requests = carried(answer(200), path="/in;v=1/9d3e;k=w8?x=1")
    assert requests[0][0].startswith("POST /in;v=1/9d3e;k=w8?x=1 HTTP/1.1")


@pytest.mark.requirement("RAP-003", "RAP-006")
def test_a_message_is_posted_as_json_to_exactly_that_url():
    reply, [(head, body)] = carried(answer(200))
    assert head.startswith("POST /in?k=w%208 HTTP/1.1\r\n")
    assert "Content-Type: application/json\r\n" in head
    assert "X-Key: v\r\n" in head
    assert (body, reply.is_accepted, reply.is_worth_retrying) == (b'{"a":1}', True, False)


@pytest.mark.parametrize(
    ("status", "worth"),
    [(200, False), (204, False), (302, False), (404, False), (413, False), (500, True), (503, True)],
)
def test_only_the_other_sides_faults_are_worth_another_try(status, worth):
    reply, _ = carried(answer(status))
    assert (reply.status, reply.is_accepted, reply.is_worth_retrying) == (status, status == 200, worth)


@pytest.mark.requirement("RAP-409")
def test_a_redirect_is_not_followed():
    reply, requests = carried(answer(307, "Location: /elsewhere"))
    assert (reply.status, len(requests)) == (307, 1)


def test_whoever_never_answers_costs_a_bounded_wait():
    reply, _ = carried(None, timeout_s=0.2)
    assert (reply.status, reply.fault, reply.is_worth_retrying) == (None, "no answer within 0.2 seconds", True)


@pytest.mark.parametrize("garbage", [b"", b"not http at all\r\n\r\n", b"HTTP/1.1 200 x\r\nContent-Length: 9\r\n\r\n1"])
def test_a_broken_answer_is_a_failed_connection(garbage):
    reply, _ = carried(garbage)
    assert (reply.status, reply.is_worth_retrying) == (None, True)


def test_a_url_that_leads_inside_is_never_contacted():
    reply, requests = carried(answer(200), reach=Reach())
    assert (reply.is_refused, reply.is_worth_retrying, requests) == (True, False, [])


def test_a_name_that_leads_inside_is_never_contacted():
    reply, requests = carried(answer(200), host="localhost", reach=Reach())
    assert (reply.is_refused, requests) == (True, [])


def test_a_name_that_changes_its_mind_is_connected_where_it_was_judged(monkeypatch):
    async def judged_once():
        async with Host(answer(200)) as listener:
            answers = iter(["127.0.0.1", "127.0.0.2"])

            def getaddrinfo(host, port, **options):
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 0))]

            monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
            courier = Courier(HERE)
            url = f"http://rebinding.test:{listener.port}/"
            replies = [await courier.post(url, b"{}"), await courier.post(url, b"{}")]
            await courier.close()
            return replies, len(listener.requests)

    [first, second], contacted = asyncio.run(judged_once())
    assert (first.is_accepted, second.is_refused, contacted) == (True, True, 1)


def test_an_endless_document_is_given_up():
    async def fetch():
        async with Host(answer(200, body=b"x" * 5000)) as listener:
            courier = Courier(HERE)
            url = f"http://127.0.0.1:{listener.port}/"
            replies = await courier.get(url, max_bytes=4999), await courier.get(url, max_bytes=5000)
            await courier.close()
            return replies

    long, fits = asyncio.run(fetch())
    assert (long.is_refused, long.fault) == (True, "the answer has more than 4999 bytes")
    assert fits.body == b"x" * 5000
