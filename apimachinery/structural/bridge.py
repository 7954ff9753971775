"""A structural schema as the one schema value that decoding, patches and server-side apply walk."""

from apimachinery.schema import Schema
from apimachinery.structural.model import Structural


def to_schema(structural: Structural, metadata: Schema) -> Schema:
    """The schema of a custom resource; `metadata` is the ObjectMeta of this release."""
    raise NotImplementedError
