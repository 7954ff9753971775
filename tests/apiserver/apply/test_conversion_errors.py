"""Errors of the conversions that an apply needs to take out what it applied before."""

import pytest

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.apply.managedfields import typed
from kubeskew.apiserver.apply.managedfields.entries import ManagerId, VersionedFieldSet
from kubeskew.apiserver.apply.managedfields.ownership import Updater, Versioned

SCHEMA = types_of(Version(36)).of_kind("", "v1", "ConfigMap")
ME = ManagerId("me", "Apply", "")


def config_map(**data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "failed to convert merged object to last applied version: "),
        (2, "failed add back owned items: failed to convert merged object at version v2: "),
        (3, "failed add back owned items: failed to convert pruned object at version v2: "),
        (4, "failed add back dangling items: failed to convert pruned object to last applied version: "),
        (5, ""),
    ],
)
def test_a_conversion_that_fails_is_named(number: int, words: str):
    """Each of the conversions of an apply, in another version than the last one, is reported with what it
    was for (structured-merge-diff merge/update.go, prune)."""
    conversions = 0

    def convert(obj: dict[str, object], _api_version: str) -> dict[str, object]:
        nonlocal conversions
        conversions += 1
        if conversions == number:
            raise StatusError(400, "BadRequest", "no")
        return obj

    updater = Updater(lambda _: SCHEMA, convert, None)
    before = config_map(a="1", b="2")
    managers = {ME: VersionedFieldSet(typed.to_field_set(before, SCHEMA), "v1", applied=True)}

    with pytest.raises(StatusError) as refused:
        updater.apply(
            *(Versioned(before, "v2", SCHEMA), Versioned(config_map(a="1"), "v2", SCHEMA), managers, ME),
            force=False,
        )

    assert (refused.value.code, refused.value.message) == (500, f"failed to prune fields: {words}no")
