import dataclasses
import datetime as dt
import enum
import ipaddress
import json
import subprocess
import sys
import threading
from collections import UserDict, deque
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from strategies import json_values

from agenttool.codec import quick_levels
from agenttool.errors import ToolFailure
from agenttool.results.jsonable import MAX_DEPTH, MAX_VALUES, encode_json, to_jsonable, to_jsonable_leniently
from agenttool.results.media import MediaExtractor

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
PNG_ID = MediaExtractor().add_bytes(PNG)


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Row:
    path: PurePosixPath
    tags: set[str]


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(serialization_alias="fullName")
    photo: bytes = b""
    password: pydantic.SecretStr = pydantic.SecretStr("hunter2-hunter2")


@pydantic.dataclasses.dataclass
class Checked:
    when: dt.date


class Shape(msgspec.Struct, tag="shape", rename="camel"):
    side_length: int
    note: str | msgspec.UnsetType = msgspec.UNSET


class Named:
    def __init__(self, name):
        self.name = name


class Attr:
    """As the attrs library leaves it."""

    __attrs_attrs__ = (Named("size"),)
    size = 3


class Array:
    __array_interface__ = None

    def tolist(self):
        return [1, 2]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (deque([1]), [1]),
        (range(2), [0, 1]),
        (UserDict(a=1), {"a": 1}),
        (Point(1, 2), [1, 2]),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        ({Color.RED: Level.HIGH}, {"red": 3}),
        (Decimal("1.10"), "1.10"),
        (Fraction(1, 3), "1/3"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        (ipaddress.ip_address("::1"), "::1"),
        (dt.datetime(2026, 5, 8, 1, 2, tzinfo=dt.UTC), "2026-05-08T01:02:00Z"),
        (dt.date(2026, 5, 8), "2026-05-08"),
        (dt.time(1, 2), "01:02:00"),
        (dt.timedelta(days=1, seconds=2), "P1DT2S"),
        (Row(PurePosixPath("x"), {"b", "a"}), {"path": "x", "tags": ["a", "b"]}),
        (Checked(dt.date(2026, 5, 8)), {"when": "2026-05-08"}),
        (Shape(2), {"type": "shape", "sideLength": 2}),
        (Attr(), {"size": 3}),
        (Array(), [1, 2]),
        ({"a": b"text"}, {"a": "text"}),
        ({"a": PNG}, {"a": PNG_ID}),
    ],
)
def test_a_value_with_an_obvious_form_takes_it(value, plain):
    assert to_jsonable(value, MediaExtractor().add_bytes) == plain


def test_a_model_is_written_by_its_own_serializer_and_its_bytes_are_stored():
    assert to_jsonable(Person(name="Ada"), MediaExtractor().add_bytes) == {
        "fullName": "Ada",
        "photo": "",
        "password": "**********",
    }
    extractor = MediaExtractor()
    assert to_jsonable(Person(name="Ada", photo=PNG), extractor.add_bytes)["photo"] == PNG_ID
    assert [payload.data for payload in extractor.payloads] == [PNG]


def test_a_secret_type_is_never_written():
    assert to_jsonable({"key": pydantic.SecretStr("hunter2-hunter2")}, MediaExtractor().add_bytes) == {
        "key": "[redacted]"
    }


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def endless():
    value = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("value", "code", "where"),
    [
        ({"a": [threading.Lock()]}, "not_serializable", "/a/0"),
        ({"a": float("nan")}, "nan", "/a"),
        ([float("-inf")], "nan", "/0"),
        ({"x": {"y~/": "\udfff"}}, "not_unicode", "/x/y~0~1"),
        (nested(10_000), "too_deep", "/0/0"),
        (nested(MAX_DEPTH + 2), "too_deep", "/0/0"),
        (endless(), "too_deep", "/self/self"),
        ({"a": lambda: None}, "not_serializable", "/a"),
        ((each for each in [1]), "not_serializable", ""),
        ({1: "a", "1": "b"}, "result_mapping_failed", "two keys"),
        ({(1, 2): "a"}, "result_mapping_failed", "key of type tuple"),
        ([10**5000], "result_mapping_failed", "/0"),
    ],
)
def test_a_value_without_json_form_is_rejected_with_its_place_and_advice(value, code, where):
    with pytest.raises(ToolFailure) as caught:
        to_jsonable(value, MediaExtractor().add_bytes)
    error = caught.value.error
    assert error.error_code == code
    assert where in error.message
    assert "; " in error.message


def test_copying_and_conversion_agree_about_depth():
    assert encode_json(nested(MAX_DEPTH - 1)) is not None
    assert encode_json(nested(MAX_DEPTH + 2)) is None


@given(json_values(max_leaves=30))
def test_a_copy_is_equal_and_not_the_same_object(value):
    if isinstance(value, dict | list):
        assert json.loads(encode_json(value)[0]) == value
        assert to_jsonable(value, MediaExtractor().add_bytes) == value
        assert to_jsonable(value, MediaExtractor().add_bytes) is not value


@pytest.mark.parametrize("value", [{"a": b"x"}, {"a": {1}}, {"a": (1,)}, {1: 2}, {"a": float("nan")}, "text", None])
def test_a_value_that_is_not_json_must_be_converted(value):
    assert encode_json(value) is None


def test_lenient_conversion_names_the_type_of_what_has_no_json_form():
    value = {"ok": 1, "lock": threading.Lock(), "nan": [float("nan")], "deep": nested(200)}
    rough = to_jsonable_leniently(value, MediaExtractor().add_bytes)
    assert (rough["ok"], rough["lock"], rough["nan"]) == (1, "[lock, not readable]", ["[float, not readable]"])


def test_mapping_does_not_import_the_libraries_whose_objects_it_reads():
    script = "import sys, agenttool.results.mapping; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-s", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pydantic", "attrs", "attr", "numpy"} & set(loaded)


class Guarded(list):
    """Fails when its items are read."""

    def __iter__(self):
        yield pytest.fail("the items were read")


@dataclasses.dataclass
class Page:
    rows: object


@pytest.mark.parametrize(
    "value",
    [
        [0] * (MAX_VALUES + 1),
        (0,) * (MAX_VALUES + 1),
        [[0] * 3000 for _ in range(1000)],
        [(0,) * 3000 for _ in range(1000)],
        Guarded([0] * (MAX_VALUES + 1)),
        Page(Guarded([0] * (MAX_VALUES + 1))),
    ],
    ids=["list", "tuple", "nested lists", "nested tuples", "sequence", "dataclass"],
)
@pytest.mark.parametrize("convert", [to_jsonable, to_jsonable_leniently])
def test_a_value_over_the_limit_is_rejected_by_its_size(convert, value):
    with pytest.raises(ToolFailure) as caught:
        convert(value, MediaExtractor().add_bytes)
    assert caught.value.error.error_code == "too_many_values"


class Endless(Sequence):
    """Claims to be empty and never ends."""

    def __len__(self):
        return 0

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize("convert", [to_jsonable, to_jsonable_leniently])
def test_an_endless_sequence_is_rejected_at_the_limit(convert, monkeypatch):
    monkeypatch.setattr("agenttool.results.jsonable.MAX_VALUES", 1000)
    with pytest.raises(ToolFailure) as caught:
        convert(Endless(), MediaExtractor().add_bytes)
    assert caught.value.error.error_code == "too_many_values"


@pytest.mark.parametrize("value", [{"a": b"x"}, {"a": {1}}, {"a": (1,)}, {1: 2}, {"a": float("nan")}, {"a": "\ud800"}])
def test_a_small_value_that_is_not_json_must_be_converted_too(value):
    assert encode_json(value, quick_levels(value)) is None


def test_a_small_value_is_decoded_from_its_encoding_and_a_deep_or_long_one_is_walked():
    value = {"a": [1, 2.5, None, True], "b": {"c": "é"}}
    written, copy = encode_json(value, quick_levels(value))
    assert (json.loads(written), copy) == (value, value)
    assert copy is not value
    deep, long = [], [10**300]
    for _ in range(150):
        deep = [deep]
    assert encode_json(deep, quick_levels(deep)) is None
    assert encode_json(long, quick_levels(long)) is None
