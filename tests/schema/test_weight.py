from agenttool.schema.weight import is_costly


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
