"""A tag of declarative validation that cannot be read refuses its tree."""

from typing import Any

import pytest

from kubeskew.apimachinery.versions import Version
from kubeskew.releases.import_tree import Reading, catalogue_of
from kubeskew.releases.tree.go_syntax import TreeError


def test_wrong_tags() -> None:
    """The error is of the tree, and names the field."""
    field = {"type": "string", "markers": ["k8s:maxLength=three"]}
    types = {"types": {"apps/v1": {"Thing": {"fields": {"mine": field}}}}}
    nothing: dict[str, Any] = {name: {} for name in Reading._fields}
    reading = Reading(**{**nothing, "types": types, "openapi": {"definitions": {}}})

    with pytest.raises(TreeError) as caught:
        catalogue_of(reading, 37, Version(37))

    assert str(caught.value) == (
        "a tag of declarative validation cannot be read: apps/v1.Thing.mine: "
        "k8s:maxLength: failed to parse tag payload as int"
    )
