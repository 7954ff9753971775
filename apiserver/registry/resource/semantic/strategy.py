"""Decides how the kinds of semantic parameters are written: KEP-4381 as drafted.

What the draft does not say is as in 1.30 for the kinds that shipped (pkg/registry/resource/*/strategy.go).
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew


class NodeSliceStrategy(ValidatedAsNew, ReturnsDeletedObject):
    """NodeResourceSlice."""

    field_labels = ("nodeName", "driverName")

    def fields(self, obj: Object) -> dict[str, str]:
        return super().fields(obj) | {label: obj.get(label) or "" for label in self.field_labels}
