"""Metadata alone, of objects with annotations that upstream's internal types have as fields."""

from kubeskew.apiserver.http.media_types import partial_metadata

_TEMPLATE = "deprecated.daemonset.template.generation"


def _shown(api_version, kind, annotations):
    obj = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "annotations": annotations},
    }
    return partial_metadata(obj, "v1")["metadata"]


def test_annotations_that_are_fields_are_left_out():
    """A daemon set's generation of its template is reported nowhere but in the daemon set."""
    assert _shown("apps/v1", "DaemonSet", {_TEMPLATE: "1", "a": "b"}) == {
        "name": "x",
        "annotations": {"a": "b"},
    }
    assert _shown("apps/v1", "DaemonSet", {_TEMPLATE: "1"}) == {"name": "x"}


def test_annotations_of_other_kinds_stay():
    """An annotation that one kind shows as a field stays an annotation of all other kinds."""
    kept = {"name": "x", "annotations": {_TEMPLATE: "1"}}

    assert _shown("apps/v1", "StatefulSet", {_TEMPLATE: "1"}) == kept
    assert _shown("example.com/v1", "DaemonSet", {_TEMPLATE: "1"}) == kept
