import pytest

from agenttool.policy.field_names import MatchingField, field_named

PATH, COMMAND, URL, RESOURCE = MatchingField


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("path", PATH),
        ("filePath", PATH),
        ("source-file", PATH),
        ("paths", PATH),
        ("cwd", PATH),
        ("path2", PATH),
        ("old_pathname", PATH),
        ("command", COMMAND),
        ("cmd", COMMAND),
        ("targetUrl", URL),
        ("uri", URL),
        ("resource_id", RESOURCE),
        ("query", None),
        ("profile", None),
        ("s", None),
    ],
)
def test_an_argument_is_what_it_is_called(name, field):
    assert field_named(name) is field
