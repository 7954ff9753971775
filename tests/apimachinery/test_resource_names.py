"""Tests the names of extended resources."""

import pytest

from kubeskew.apimachinery.pod_resources import is_dra_extended_resource, is_extended_resource


@pytest.mark.parametrize(
    ("name", "by_plugin", "by_dra"),
    [
        ("example.com/gpu", True, True),
        ("deviceclass.resource.kubernetes.io/gpu", False, True),
        ("cpu", False, False),
        ("kubernetes.io/gpu", False, False),
        ("node.kubernetes.io/gpu", False, False),
        ("my-kubernetes.io/gpu", False, False),
        ("kubernetes.io.example.com/gpu", True, True),
        ("requests.example.com/gpu", False, False),
        (f"{'a.' * 122}example/gpu", False, False),  # too long for a quota's `requests.` before it
        (f"{'a.' * 118}example/gpu", True, True),
    ],
)
def test_names_of_extended_resources(name, by_plugin, by_dra):
    """A domain that is not Kubernetes' own makes an extended resource; DRA knows implicit names besides."""
    assert (is_extended_resource(name), is_dra_extended_resource(name)) == (by_plugin, by_dra)
