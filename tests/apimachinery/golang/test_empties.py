"""Empty lists and maps of a body, which Go has in its structs and does not write."""

import copy

from kubeskew.apimachinery.golang.roundtrip import given, normalise
from kubeskew.apimachinery.schema import Field, Kind, Schema

TEXT = Schema(Kind.STRING)
SCHEMA = Schema(
    Kind.OBJECT,
    fields={
        "list": Field(Schema(Kind.LIST, items=TEXT)),
        "map": Field(Schema(Kind.MAP, items=TEXT)),
        "text": Field(TEXT),
    },
)


def test_what_is_empty_is_given_and_not_written():
    """It counts neither in comparisons nor in what is written, and outlives copies and a second walk."""
    found = normalise({"list": [], "map": {}, "text": ""}, SCHEMA)
    assert found == {}
    for kept in (found, found.copy(), copy.deepcopy(found), normalise(found, SCHEMA)):
        assert (given(kept, "list"), given(kept, "map"), given(kept, "text")) == ([], {}, None)
    assert type(normalise({"text": "a"}, SCHEMA)) is dict


def test_a_value_hides_what_was_empty():
    """A field that is set later has its value."""
    found = normalise({"list": []}, SCHEMA)
    found["list"] = ["a"]
    assert given(found, "list") == ["a"]
