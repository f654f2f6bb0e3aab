import json
import threading

from agenttool.ports.output import Media, NativeOutput
from agenttool.results.native import native_payload
from agenttool.results.redaction import compile_redactor
from agenttool.results.scrub import compile_scrubber


def test_native_output_that_could_not_be_mapped_is_kept_as_far_as_it_goes():
    [payload] = native_payload({"ok": 1, "lock": threading.Lock()})
    assert json.loads(payload.data) == {"ok": 1, "lock": "[lock, not readable]"}
    assert (payload.ref.media_type, payload.ref.relation) == ("application/json", "native_output_of_call")


def test_a_kept_copy_is_no_way_round_redaction():
    value = {"user": {"pin": "4321"}, "echo": "hunter2!"}
    output = NativeOutput(value=value, content=(Media(b"\x00hunter2!"),))
    scrubber = compile_scrubber(["hunter2!"])
    [payload] = native_payload(output, redactor=compile_redactor(["user.pin"]), scrubber=scrubber)
    assert json.loads(payload.data) == {"value": {"user": {"pin": "[redacted]"}, "echo": "[redacted]"}}
    stored = native_payload(output, scrubber=scrubber)
    assert all(b"hunter2!" not in each.data for each in stored)
    assert len(stored) == 2
