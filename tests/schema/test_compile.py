import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agenttool.errors import RecordError
from agenttool.schema.compile import MAX_MISFITS, Checker, compile_schema, is_costly


@pytest.fixture
def listener():
    """A real server that notes every request."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type":"string"}')

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_schema_that_points_to_the_network_is_refused_and_nothing_is_fetched(listener):
    url, seen = listener
    with pytest.raises(RecordError, match="may not fetch"):
        Checker({"$ref": f"{url}/schema.json"})
    assert seen == []


def test_a_schema_that_points_to_a_file_is_refused(tmp_path):
    secret = tmp_path / "schema.json"
    secret.write_text('{"type":"string"}')
    with pytest.raises(RecordError, match="may not fetch"):
        Checker({"$ref": secret.as_uri()})


@pytest.mark.parametrize("schema", [{"type": 5}, {"pattern": "("}, {"required": "all"}, {"$ref": "#/$defs/missing"}])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(RecordError, match="not a usable JSON Schema"):
        Checker(schema)


def test_a_hostile_pattern_ends_in_a_misfit_and_not_in_a_wait():
    check = Checker({"type": "string", "pattern": r"^(?=(a+)+\1$)(a+)+$"})
    assert check.misfits("a" * 60 + "!")


def test_equal_schemas_share_one_checker_however_their_members_stand():
    assert compile_schema({"type": "object", "required": ["a"]}) is compile_schema(
        {"required": ["a"], "type": "object"}
    )


def test_a_schema_may_hold_numbers_beyond_what_canonical_json_can_spell():
    assert compile_schema({"maximum": 2**64 - 1}).accepts(2**63)


def test_misfits_are_reported_up_to_a_limit():
    assert len(Checker({"items": {"type": "string"}}).misfits(list(range(1000)))) == MAX_MISFITS


def test_half_a_surrogate_pair_is_a_misfit():
    check = Checker({"type": "string"})
    assert not check.accepts("\ud800")
    assert check.misfits("\ud800")


def test_references_that_multiply_are_costly_and_references_that_add_up_are_not():
    def chain(links, times):
        steps = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * times} for n in range(links)}
        return {"$defs": {**steps, f"d{links}": {}}, "$ref": "#/$defs/d0"}

    assert is_costly(chain(40, 2))
    assert not is_costly(chain(40, 1))
    assert not is_costly(chain(5, 2))


def test_a_schema_that_comes_back_to_itself_is_not_followed_for_ever():
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert not is_costly(tree)
    assert not is_costly({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"$ref": "#/$defs/a~1b"}}})


def test_what_leads_nowhere_weighs_nothing():
    assert not is_costly({"allOf": [{"$ref": "#/nowhere"}, {"$ref": "#anchor"}, {"$ref": 7}]})
