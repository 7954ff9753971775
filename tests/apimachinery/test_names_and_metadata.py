# ruff: noqa: E501 - upstream's texts stand whole
"""Names, keys and metadata, in upstream's words."""

from typing import Any

import pytest

from kubeskew.apimachinery.validation import names, object_meta

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (names.dns1123_subdomain("a.b-c.1"), []),
        (names.dns1123_subdomain("Upper"), [SUBDOMAIN]),
        (names.dns1123_subdomain("a" * 254), ["must be no more than 253 characters"]),
        (names.dns1123_subdomain("web-", True), []),
        (names.dns1123_subdomain("web.-", True), []),
        (names.dns1123_label("--", True), []),
        (names.dns1123_label("-a-", True)[0][:30], "a lowercase RFC 1123 label mus"),
        (names.dns1123_label("a..b")[0][:30], "a lowercase RFC 1123 label mus"),
        (names.dns1123_label("a.b"), ["must not contain dots"]),
        (
            names.dns1123_label("a." * 40 + "b"),
            ["must be no more than 63 characters", "must not contain dots"],
        ),
        (names.label_value("a" * 64), ["must be no more than 63 bytes"]),
        (names.qualified_name("/x"), ["prefix part must be non-empty"]),
        (names.qualified_name("example.com/x"), []),
        (names.config_key(".."), ["must not be '..'"]),
        (names.port_name("a--b"), ["must not contain consecutive hyphens"]),
        (names.path_segment("a/b%c"), ["may not contain '/'", "may not contain '%'"]),
        (names.env_name("a b"), []),
        (names.env_name("1a", relaxed=False) != [], True),
        (names.port(0), ["must be between 1 and 65535, inclusive"]),
    ],
)
def test_checks_of_names(texts: Any, wanted: Any) -> None:
    """No text if the name is fine."""
    assert texts == wanted


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
    """The one fault, with its path."""
    found = object_meta.validate_object_meta({"namespace": "n", **meta}, namespaced=True)
    assert shown(found) == [text]


def test_metadata_may_not_change_what_identifies_the_object() -> None:
    """uid and the like are immutable; what is left out is taken over."""
    old = {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "t", "resourceVersion": "1"}
    new: Any = {"name": "a", "namespace": "n", "resourceVersion": "1", "creationTimestamp": "later"}
    assert object_meta.validate_object_meta_update(new, old) == []
    assert (new["uid"], new["creationTimestamp"]) == ("u", "t")
    found = object_meta.validate_object_meta_update({**old, "uid": "other"}, old)
    assert shown(found) == ['metadata.uid: Invalid value: "other": field is immutable']


def test_no_finalizer_may_be_added_to_what_is_being_deleted() -> None:
    """The added ones are listed as Go prints them."""
    old = {"name": "a", "resourceVersion": "1", "deletionTimestamp": "t", "finalizers": ["x.example.com/f"]}
    new = {**old, "finalizers": ["x.example.com/f", "x.example.com/g"]}
    assert shown(object_meta.validate_object_meta_update(new, old)) == [
        'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x.example.com/g"}'
    ]
