"""Converts objects at the API: the scheduler works with resource.k8s.io/v1, the server may serve an older
version."""

from kubeskew.apimachinery.client.refs import Ref, dra_refs
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import Version

INTERNAL = "v1"


class VersionConverter:
    """Converts received and sent objects."""

    def __init__(self, version: Version) -> None:
        self.refs = dra_refs(version)
        self._same = self.refs.version == INTERNAL

    def incoming(self, ref: Ref, obj: Object) -> Object:
        """Returns the object in the v1 shape; not a copy if it is in that already."""
        if self._same:
            return obj
        said = {"apiVersion": ref.api_version, "kind": ref.kind, **obj}
        return convert(said, GroupVersionKind(ref.group, INTERNAL, ref.kind))

    def outgoing(self, ref: Ref, obj: Object) -> Object:
        """Returns the object as the server of `ref` accepts it."""
        internal = {"apiVersion": f"{ref.group}/{INTERNAL}", "kind": ref.kind}
        if self._same:
            return {**obj, **internal}
        return convert({**obj, **internal}, GroupVersionKind(ref.group, ref.version, ref.kind))


class NoConversion(VersionConverter):
    """Leaves objects as the server has them: classic releases have no other version to think in."""

    def incoming(self, ref: Ref, obj: Object) -> Object:
        return obj

    def outgoing(self, ref: Ref, obj: Object) -> Object:
        return obj
