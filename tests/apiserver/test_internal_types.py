"""Objects as upstream's internal types, and their differences, which refusals end with."""

from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.internal_types import InternalTypes, fields_at

NEW, OLD = InternalTypes(Version(36), unified=True), InternalTypes(Version(33), unified=False)
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_every_field_is_shown_under_gos_name():
    """Absent values are Go's zeros: null for what may be nil."""
    shown = NEW.shown({"key": "a", "operator": "Exists"}, "core.Toleration")

    assert shown == {"Key": "a", "Operator": "Exists", "Value": "", "Effect": "", "TolerationSeconds": None}
    assert list(shown) == ["Key", "Operator", "Value", "Effect", "TolerationSeconds"]


def test_a_pods_host_namespaces_are_in_its_security_context():
    """Upstream's conversion moves them there."""
    shown = NEW.shown({"hostNetwork": True, "containers": [{"name": "c"}]}, "core.PodSpec")

    assert shown["SecurityContext"]["HostNetwork"] is True
    assert shown["Containers"][0]["TTY"] is False
    assert shown["Volumes"] is None


def test_fields_are_those_of_the_release():
    """A pod of 1.31 has no resources of its own, one of 1.32 has."""
    assert "Resources" not in InternalTypes(Version(31), unified=False).shown({}, "core.PodSpec")
    assert "Resources" in InternalTypes(Version(32), unified=False).shown({}, "core.PodSpec")


def test_differences_are_lines_of_json_since_1_34():
    """With three lines around what changed, and without names of files; before, structs in Go's syntax."""
    changed = {**CLAIM, "accessModes": ["ReadOnlyMany"]}

    assert NEW.difference("core.PersistentVolumeClaimSpec", CLAIM, changed).splitlines() == [
        "@@ -1,6 +1,6 @@",
        " {",
        '  "AccessModes": [',
        '-  "ReadWriteOnce"',
        '+  "ReadOnlyMany"',
        "  ],",
        '  "Selector": null,',
        '  "Resources": {',
    ]
    assert OLD.difference("core.PersistentVolumeClaimSpec", CLAIM, changed).startswith(
        "  core.PersistentVolumeClaimSpec{\n"
    )


def test_a_difference_of_very_many_lines_is_one_hunk():
    """All between what both begin and end with is one hunk: comparing lines takes the square of them."""

    def spec(value):
        env = [{"name": f"e{number}", "value": value} for number in range(1_000)]
        return {"containers": [{"name": "c", "env": env}]}

    lines = NEW.difference("core.PodSpec", spec("old"), spec("new")).splitlines()
    assert sum(line.startswith("@@") for line in lines) == 1
    assert '-     "Value": "old",' in lines
    assert '+     "Value": "new",' in lines
    assert NEW.difference("core.PodSpec", spec("old"), spec("old")) == ""


def test_an_imported_release_has_fields_of_its_own():
    """Its document lies over the fields of its minor, which it need not have."""
    fields = fields_at(36, {"core.Toleration": [["Key", "s"]]})

    assert fields["core.Toleration"] == [["Key", "s"]]
    assert fields["core.PodSpec"] == fields_at(36, None)["core.PodSpec"]
