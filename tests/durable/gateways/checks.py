"""Compare what clients received, what the journal contains and what the tools did."""

import json
import re
from collections import Counter, defaultdict

from servers import run

from agenttool.call.call_state import MAX_ATTEMPTS

NOTHING_RAN = {"process_died", "rejected", "permission_denied", "sibling_canceled"}
"""Errors which say that the tool did not start."""

CONTINUES = {"awaiting_approval", "queued"}
"""A call that a response with 202 showed like this is continued by the next server."""

NEVER_BEGAN = {"process_died", "runtime_shutdown", "journal_unavailable"}
"""Errors after which the same idempotency key may run the call."""

MAY_RUN = re.compile(r"\bmay\b.*\b(run|recorded|started)\b")


class Records:
    """The records of an exported journal."""

    def __init__(self, lines):
        self.results, self.calls, self.decisions = {}, {}, defaultdict(list)
        self.attempts = Counter()
        self.faults = []
        for record in map(json.loads, lines):
            kind = record.pop("record_type")
            if kind == "tool_result":
                if record["invocation_id"] in self.results:
                    self.faults.append(f"{record['invocation_id']} has two results")
                self.results[record["invocation_id"]] = record
            elif kind == "tool_invocation":
                self.calls[record["invocation_id"]] = record
            elif kind == "tool_permission_decision" and record.get("answers"):
                self.decisions[record["invocation_id"]].append(record)
            elif kind == "tool_event" and "attempt" in record["data"]:
                self.attempts[record["invocation_id"]] += 1

    def error_of(self, invocation_id):
        return (self.results.get(invocation_id, {}).get("error") or {}).get("error_code")


def read_ledger(folder):
    """Return the effects: name, call, number and time."""
    file = folder / "ledger"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, call, int(number), int(at)) for name, call, number, at in map(str.split, lines)]


def check(folder, clients, gateways):
    """Return the records and every fault of a round."""
    faults = list(clients.faults)
    verified = run(folder, "verify", "--store", "calls.db")
    if verified.returncode:
        faults.append(f"verify: {verified.stdout} {verified.stderr}")
    exported = run(folder, "export", "--store", "calls.db", "--out", "records.jsonl")
    if exported.returncode:
        faults.append(f"export: {exported.stderr}")
    validated = run(folder, "validate", "records.jsonl")
    if validated.returncode:
        faults.append(f"validate: {validated.stdout} {validated.stderr}")
    records = Records((folder / "records.jsonl").read_text().splitlines())
    ledger = read_ledger(folder)
    faults += records.faults
    faults += [f"{each} has no result" for each in records.calls.keys() - records.results.keys()]
    faults += [
        f"{each} only reads and has an unknown effect"
        for each, call in records.calls.items()
        if only_reads(call) and records.error_of(each) == "unknown_after_crash"
    ]
    faults += _wrong_responses(clients, records)
    faults += _wrong_requests(clients, records)
    faults += _wrong_answers(clients, records)
    faults += _wrong_effects(clients, records, ledger)
    for each in gateways:
        faults += [f"a gateway that was asked to stop ended with {code}" for code in each.exit_codes if code]
        faults += [f"the log of a gateway: {text}" for text in tracebacks(each.log.read_text())]
    return records, faults


def tracebacks(text):
    return [text[at.start() : at.start() + 3000] for at in re.finditer("Traceback", text)][:3]


def _wrong_responses(clients, records):
    for seen in clients.seen:
        call, result = records.calls.get(seen.invocation_id), records.results.get(seen.invocation_id)
        if call is None:
            shown = f"{seen.status} {_short(seen.result)} of {seen.invocation_id}"
            yield f"{seen.where} returned {shown}, which the journal does not have"
            continue
        if seen.result is not None and (seen.result != result or seen.status != call["status"]):
            journal = f"{call['status']} {_short(result)}"
            yield f"{seen.where} returned {seen.status} {_short(seen.result)}; the journal has {journal}"
        error = records.error_of(seen.invocation_id)
        if seen.status in CONTINUES and error == "process_died":
            yield f"{seen.where} returned {seen.status}, and the call ended with process_died"
        is_single = seen.where.startswith("POST /v1/calls")  # a batch may have been left to another process
        is_given_up = error == "process_died" and records.attempts[seen.invocation_id] < MAX_ATTEMPTS
        if seen.status == "running" and only_reads(call) and is_single and is_given_up:
            yield f"{seen.where} returned running for a call that only reads, and it ended with {error}"


def only_reads(call):
    return call["tool_id"].endswith(("look", "report"))


def _short(result):
    error = None if result is None else result.get("error")
    if error is None:
        return result and "success"
    return error["error_code"], error.get("message")


def _wrong_requests(clients, records):
    recorded = defaultdict(list)
    for invocation_id, call in records.calls.items():
        if call.get("parent_invocation_id") is None and isinstance(call.get("model_input"), dict):
            recorded[call["model_input"]["number"]].append(invocation_id)
    for request in clients.requests:
        for number, ids in zip(request.numbers, request.ids, strict=True):
            yield from _wrong_call(request, number, ids, recorded[number], records)
        yield from _wrong_refusals(request, [each for each in request.numbers if recorded[each]])


def _wrong_call(request, number, ids, recorded, records):
    """Yield the faults of one call: with a key it runs once, also if an earlier attempt ended before it began."""
    attempts = [each for each in recorded if records.error_of(each) not in NEVER_BEGAN]
    if len(attempts) > 1 or (len(recorded) > 1 and request.key is None):
        yield f"the call {number} of {request.tools} is recorded {len(recorded)} times: {recorded}"
    if len(ids & {*attempts}) > 1 or ids - {*recorded}:
        yield f"the key {request.key} of {number} returned the calls {ids}; recorded are {recorded}"
    if request.is_answered and not recorded:
        yield f"the call {number} was acknowledged and is lost"


def _wrong_refusals(request, recorded):
    for status, detail in request.refusals:
        if status != 503:
            yield f"{status} for {detail}"
        elif recorded and not MAY_RUN.search(detail) and not (request.key and request.is_answered):
            yield f"503 for the recorded calls {recorded}: {detail}"


def _wrong_answers(clients, records):
    counts = Counter(approval_id for approval_id, _, _ in clients.answers)
    yield from (f"{each} was answered {count} times" for each, count in counts.items() if count > 1)
    for approval_id, invocation_id, answer in clients.answers:
        written, error = (
            [each["behavior"] for each in records.decisions[invocation_id]],
            records.error_of(invocation_id),
        )
        if written != [answer]:
            yield f"the answer {answer} to {approval_id} is recorded as {written}; the call ended with {error}"


def _wrong_effects(clients, records, ledger):
    by_call = Counter((name, call) for name, call, _, _ in ledger)
    by_request = Counter((name, number) for name, _, number, _ in ledger)
    for (name, which), count in (by_call + by_request).items():
        if count > (MAX_ATTEMPTS if name == "put" else 1):
            yield f"{name} {which} was done {count} times"
    reported = {}
    for seen in clients.seen:
        if seen.result is not None:
            reported.setdefault(seen.invocation_id, seen.at_ns)
    for name, call, _, at_ns in ledger:
        yield from _wrong_effect(name, call, at_ns - reported.get(call, at_ns), records)
    done = {call for _, call, _, _ in ledger}
    for call, result in records.results.items():
        text = (result.get("content") or [{}])[0].get("text") or ""
        if text.startswith("wrote") and result.get("error") is None and call not in done:
            yield f"{call} succeeded and was not done"


def _wrong_effect(name, call, late_ns, records):
    error = records.error_of(call)
    if call not in records.calls:
        yield f"{name} {call} was done and is not recorded"
    elif late_ns > 0 and name != "put" and error != "unknown_after_crash":
        yield f"{name} {call} was done {late_ns / 1e9:.3f} s after its end was reported; it ended with {error}"
    if error in NOTHING_RAN or any(each["behavior"] == "deny" for each in records.decisions[call]):
        yield f"{name} {call} ended with {error} and was done"
