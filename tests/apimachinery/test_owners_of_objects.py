"""Tests how objects are identified, and who controls them."""

import pytest

from kubeskew.apimachinery.objects import controller_of, is_controlled_by, object_key

OWNER = {"metadata": {"name": "owner", "uid": "u1"}}


def _owned(*references):
    return {"metadata": {"name": "owned", "ownerReferences": list(references)}}


@pytest.mark.parametrize(("metadata", "key"), [({}, ("", "a")), ({"namespace": "ns"}, ("ns", "a"))])
def test_the_key_of_an_object_is_its_namespace_and_name(metadata, key):
    """The namespace of cluster-scoped objects is empty."""
    assert object_key({"metadata": {"name": "a", **metadata}}) == key


def test_the_controller_is_the_owner_that_says_so():
    """Other owners do not count; without a controller there is none."""
    controller = {"uid": "u1", "controller": True}

    assert controller_of(_owned({"uid": "u2"}, controller)) is controller
    assert controller_of(_owned({"uid": "u1"})) is None
    assert controller_of({"metadata": {"name": "owned"}}) is None


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"uid": "u1", "controller": True}, True),
        ({"uid": "u2", "controller": True}, False),
        ({"uid": "u1"}, False),
    ],
)
def test_an_object_is_controlled_by_the_owner_of_that_uid(reference, expected):
    """The uid decides, and only a controller counts."""
    assert is_controlled_by(_owned(reference), OWNER) is expected
