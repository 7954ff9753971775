# ruff: noqa: E501 - upstream's texts stand whole
"""Object metadata, in upstream's words."""

from typing import Any

import pytest

from kubeskew.apiserver import object_meta

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def shown(errors: Any) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        ({}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "a", "namespace": ""}, "metadata.namespace: Required value"),
        ({"name": "A"}, f'metadata.name: Invalid value: "A": {SUBDOMAIN}'),
        (
            {"name": "a", "finalizers": ["plain"]},
            'metadata.finalizers[0]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified',
        ),
        (
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        ),
        (
            {"name": "a", "annotations": {"k": "x" * 262144}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
    ],
)
def test_metadata_of_a_new_object(meta: Any, text: str) -> None:
    """New metadata with one error is refused with that error, at its path."""
    found = object_meta.validate_object_meta({"namespace": "n", **meta}, namespaced=True)
    assert shown(found) == [text]


def test_metadata_may_not_change_what_identifies_the_object() -> None:
    """A change of the uid is refused; what the new metadata leave out is taken over from the old."""
    old = {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "t", "resourceVersion": "1"}
    new: Any = {"name": "a", "namespace": "n", "resourceVersion": "1", "creationTimestamp": "later"}
    assert object_meta.validate_object_meta_update(new, old) == []
    assert (new["uid"], new["creationTimestamp"]) == ("u", "t")
    found = object_meta.validate_object_meta_update({**old, "uid": "other"}, old)
    assert shown(found) == ['metadata.uid: Invalid value: "other": field is immutable']


def test_no_finalizer_may_be_added_to_what_is_being_deleted() -> None:
    """A finalizer added to an object that is being deleted is refused; those added are listed as Go prints them."""
    old = {"name": "a", "resourceVersion": "1", "deletionTimestamp": "t", "finalizers": ["x.example.com/f"]}
    new = {**old, "finalizers": ["x.example.com/f", "x.example.com/g"]}
    assert shown(object_meta.validate_object_meta_update(new, old)) == [
        'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x.example.com/g"}'
    ]
