"""Finds parameters of classes and claims by what they were generated from: the parameters of vendors.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.30 (lookupParameters).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import AllocationError

GROUP = "resource.k8s.io"
_INDEX = "generatedFrom"


class ParametersError(AllocationError):
    """The parameters are ambiguous; the text is upstream's."""


def refers_to(reference: Mapping[str, Any] | None, parameters: Object, kind: str) -> bool:
    """Returns whether a reference means these parameters, directly or as what they were generated from."""
    if reference is None:
        return False
    if reference.get("apiGroup") == GROUP and reference.get("kind") == kind:
        return bool(reference["name"] == parameters["metadata"]["name"])
    origin = parameters.get("generatedFrom") or {}
    keys = ("apiGroup", "kind", "name")
    return all((origin.get(key) or "") == (reference.get(key) or "") for key in keys)


class GeneratedParameters:
    """Finds parameters by the object that they were generated from."""

    def __init__(self, informer: Informer, *, beside: bool = True) -> None:
        """`beside`: they stand in the namespace of what they were generated from."""
        self.informer = informer
        informer.add_index(_INDEX, partial(_generated_from, beside=beside))

    def only(
        self,
        what: str,
        reference: Mapping[str, Any],
        namespace: str,
        suits: Callable[[Object], bool] = lambda _: True,
        wanted: str = "",
    ) -> Object:
        """Returns those whose `generatedFrom` suits.

        Raises ClaimNotUsable if there are none, ParametersError if there are several. `wanted` is told
        beside the object's name then.
        """
        kind, group, name = reference["kind"], reference.get("apiGroup") or "", reference["name"]
        shown = f"{kind}.{group} " + (f"{namespace}/{name}" if namespace else name) + wanted
        known = self.informer.by_index(_INDEX, _key(reference, namespace))
        found = [parameters for parameters in known if suits(parameters["generatedFrom"])]
        if not found:
            raise ClaimNotUsable(f"generated {what} parameters for {shown} not found")
        if len(found) > 1:
            listed = " ".join(sorted(f"{namespace}/{obj['metadata']['name']}" for obj in found))
            raise ParametersError(f"multiple generated {what} parameters for {shown} found: [{listed}]")
        return found[0]


def _generated_from(parameters: Object, *, beside: bool) -> list[str]:
    origin = parameters.get("generatedFrom")
    if not origin:
        return []
    namespace = parameters["metadata"]["namespace"] if beside else origin.get("namespace") or ""
    return [_key(origin, namespace)]


def _key(reference: Mapping[str, Any], namespace: str) -> str:
    return "/".join((reference.get("apiGroup") or "", reference["kind"], namespace, reference["name"]))
