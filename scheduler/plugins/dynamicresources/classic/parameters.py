"""Finds the structured parameters of classes and claims, which only 1.30 has.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.30 (lookupParameters).
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable

_GROUP = "resource.k8s.io"
_INDEX = "generatedFrom"


class ParametersError(Exception):
    """The parameters are ambiguous; the text is upstream's."""


class Parameters:
    """Finds what the parameters of vendors were translated to."""

    def __init__(self, of_classes: Informer, of_claims: Informer) -> None:
        self._of_classes = of_classes
        self._of_claims = of_claims
        of_classes.add_index(_INDEX, lambda obj: _generated_from(obj, ""))
        of_claims.add_index(_INDEX, lambda obj: _generated_from(obj, obj["metadata"]["namespace"]))

    def of_class(self, resource_class: Object) -> Object:
        """Raises ClaimNotUsable if they are not there, ParametersError."""
        reference = resource_class.get("parametersRef")
        if reference is None:
            return {}
        return _find(self._of_classes, "class", reference, reference.get("namespace") or "")

    def of_claim(self, claim: Object, resource_class: Object) -> Object:
        """Raises ClaimNotUsable if they are not there, ParametersError."""
        reference = claim["spec"].get("parametersRef")
        if reference is None:
            request = {"namedResources": {"selector": "true"}}
            requests = [{"driverName": resource_class["driverName"], "requests": [request]}]
            return {"shareable": True, "driverRequests": requests}
        return _find(self._of_claims, "claim", reference, claim["metadata"]["namespace"])


def concern(reference: Mapping[str, Any] | None, parameters: Object, kind: str) -> bool:
    """Returns whether a reference means these parameters, directly or as what they were generated from."""
    if reference is None:
        return False
    if reference.get("apiGroup") == _GROUP and reference.get("kind") == kind:
        return bool(reference["name"] == parameters["metadata"]["name"])
    origin = parameters.get("generatedFrom") or {}
    keys = ("apiGroup", "kind", "name")
    return all((origin.get(key) or "") == (reference.get(key) or "") for key in keys)


def _find(informer: Informer, what: str, reference: Object, namespace: str) -> Object:
    kind, group, name = reference["kind"], reference.get("apiGroup") or "", reference["name"]
    shown = f"{namespace}/{name}" if namespace else name
    if (group, kind) == (_GROUP, f"Resource{what.title()}Parameters"):
        parameters = informer.get(namespace, name)
        if parameters is None:
            raise ClaimNotUsable(f"{what} parameters {shown} not found")
        return parameters
    generated = informer.by_index(_INDEX, _key(reference, namespace))
    if not generated:
        raise ClaimNotUsable(f"generated {what} parameters for {kind}.{group} {shown} not found")
    if len(generated) > 1:
        listed = " ".join(sorted(f"{namespace}/{obj['metadata']['name']}" for obj in generated))
        text = f"multiple generated {what} parameters for {kind}.{group} {shown} found: [{listed}]"
        raise ParametersError(text)
    return generated[0]


def _generated_from(parameters: Object, namespace: str) -> list[str]:
    """The objects from which parameters were generated; of claims, in their own namespace."""
    origin = parameters.get("generatedFrom")
    if not origin:
        return []
    return [_key(origin, namespace or origin.get("namespace") or "")]


def _key(reference: Mapping[str, Any], namespace: str) -> str:
    return "/".join((reference.get("apiGroup") or "", reference["kind"], namespace, reference["name"]))
