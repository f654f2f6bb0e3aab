import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.toml import rule_toml

values = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), values, max_size=4))
def test_what_is_written_can_be_read_as_toml(members):
    [read] = tomllib.loads(rule_toml(members))["rules"]
    alone = {
        name: value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value
        for name, value in members.items()
    }
    assert read == alone


def test_a_rule_reads_well():
    assert rule_toml({"behavior": "allow", "tool": ["files.read"], "argument": {"/limit": {"max": 100}}}) == (
        '[[rules]]\nbehavior = "allow"\ntool = "files.read"\nargument = { "/limit" = { max = 100 } }\n'
    )


def test_toml_has_no_null():
    with pytest.raises(ValueError, match="no null"):
        rule_toml({"a": None})
