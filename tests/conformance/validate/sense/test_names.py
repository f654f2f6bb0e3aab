import pytest

from agenttool.conformance.validate.sense.names import FieldNames, name_path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("password", ("password",)),
        ("auth.token", ("auth", "token")),
        ("/auth/token", ("auth", "token")),
        ("/a~1b/c~0d", ("a/b", "c~d")),
        ("cards[].number", ("cards", "number")),
        ("cards.*.number", ("cards", "number")),
        ("cards[0].number", ("cards", "number")),
        ("$.auth.token", ("auth", "token")),
        ("", ()),
        ("/", ()),
    ],
)
def test_a_field_may_be_named_in_several_ways(name, path):
    assert name_path(name) == path


def test_a_way_leads_through_a_field_on_whichever_level():
    fields = FieldNames(["token", "card.number"])
    assert fields.are_passed_by(("token",))
    assert fields.are_passed_by(("a", "token", "value"))
    assert fields.are_passed_by(("a", "card", "number"))
    assert not fields.are_passed_by(("card", "owner", "number"))
    assert not fields.are_passed_by(())


def test_a_way_ends_at_a_field_only_with_its_last_step():
    fields = FieldNames(["token"])
    assert fields.end(("a", "token"))
    assert not fields.end(("token", "a"))


@pytest.mark.parametrize("names", [None, 7, {}, [], [7, None], [""]])
def test_a_list_of_any_shape_is_a_list(names):
    assert not FieldNames.of(names)


def test_a_field_that_is_not_in_the_text_is_not_looked_for():
    fields = FieldNames(["password"])
    assert not fields.may_occur_in(b'{"path":"a"}')
    assert fields.may_occur_in(b'{"password":"a"}')
    assert fields.may_occur_in(b'{"p\\u0061ssword":"a"}')
