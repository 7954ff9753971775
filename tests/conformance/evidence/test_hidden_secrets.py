"""Contents of Secrets are hidden in histories."""

import json

from kubeskew.cli.ui import answers
from kubeskew.conformance.evidence.changes import changes, patch
from kubeskew.conformance.evidence.comparison import GeneratedNames, facts
from kubeskew.conformance.evidence.secrets import masked, shown

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def secret(data: dict, kind: str = "Secret", **annotations: str) -> dict:
    metadata = {"name": "a", "annotations": {"note": "x", **annotations}}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data}


def test_contents_are_hidden_and_changes_are_seen():
    """Values that stay, change, come and go are told apart, as kubectl diff does, and none is shown."""
    old = secret({"same": "c2FtZQ==", "other": "b25l", "gone": "Z29uZQ=="}, **{APPLIED: "first-text"})
    new = secret({"same": "c2FtZQ==", "other": "dHdv", "added": "bmV3"}, **{APPLIED: "second-text"})
    assert sorted(map(str, changes(old, new))) == [
        "+ data.added: ***",
        "- data.gone: ***",
        "data.other: *** (before) → *** (after)",
        f"metadata.annotations.{APPLIED}: *** (before) → *** (after)",
    ]
    assert {"op": "replace", "path": "/data/other", "value": "*** (after)"} in patch(old, new)
    texts = json.dumps([shown(old), shown(new), *masked(old, new), *patch(old, new)])
    assert not [
        value for value in ("c2FtZQ==", "b25l", "dHdv", "bmV3", "first-text", "second-text") if value in texts
    ]


def test_other_objects_are_shown_as_they_are():
    """Config maps, and custom resources that are called Secret, are no Secrets."""
    for obj in (secret({"a": "b"}, "ConfigMap"), {**secret({"a": "b"}), "apiVersion": "example.com/v1"}):
        assert shown(obj) is obj
        assert masked(None, obj) == (None, obj)


def test_an_object_that_comes_or_goes_is_hidden():
    """Creations and deletions of a Secret show its keys alone."""
    before, after = masked(None, secret({"a": "YQ=="}))
    assert (before, after["data"]) == (None, {"a": "***"})
    assert answers._lines(None, secret({"a": "YQ=="}))[-2:] == [(" ", "data:"), (" ", "  a: '***'")]


def test_comparisons_of_runs_tell_contents_apart_without_showing_them():
    """Facts of Secrets are digests, the same for the same contents."""
    names = GeneratedNames()
    one, same, other = (
        facts(secret({"a": value}, **{APPLIED: value}), names)
        for value in ("c2FtZQ==", "c2FtZQ==", "b3RoZXI=")
    )
    assert one == same
    assert len({*one} ^ {*other}) == 4
    assert "c2FtZQ==" not in str(one)
