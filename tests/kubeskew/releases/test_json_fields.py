"""The order of JSON fields, of a tree and of the releases."""

from kubeskew.apimachinery.catalogue.json_fields import JsonFields

VOLUME = "io.k8s.api.core.v1.Volume"


def test_fields_of_embedded_structs_stand_where_these_are() -> None:
    """The metadata of a kind comes after what its type has from TypeMeta."""
    fields = JsonFields(36).of(VOLUME)

    assert list(fields)[:4] == ["name", "hostPath", "emptyDir", "gcePersistentDisk"]
    assert fields["name"] == ()
    assert fields["hostPath"] == ("VolumeSource",)
    assert list(JsonFields(36).of("io.k8s.api.core.v1.Pod")) == [
        "kind",
        "apiVersion",
        "metadata",
        "spec",
        "status",
    ]


def test_releases_beyond_the_data_have_the_nearest_fields() -> None:
    """Errors name embedded structs since 1.35; an imported release says so itself."""
    assert [JsonFields(minor).named for minor in (26, 34, 35, 37)] == [False, False, True, True]
    assert JsonFields(26).of(VOLUME) == JsonFields(31).of(VOLUME)
    own = JsonFields(37, {"structs": {"v1.Thing": "b =v1.Base", "v1.Base": "a"}})
    assert (own.named, own.of("v1.Thing")) == (False, {"b": (), "a": ("Base",)})
