"""Finds the structured parameters of classes and claims, which only 1.30 has.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.30 (lookupParameters).
"""

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.plugins.dynamicresources.generated_parameters import GROUP, GeneratedParameters


class Parameters:
    """Finds what the parameters of vendors were translated to."""

    def __init__(self, of_classes: Informer, of_claims: Informer) -> None:
        self._of_classes = GeneratedParameters(of_classes, beside=False)
        self._of_claims = GeneratedParameters(of_claims)

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


def _find(generated: GeneratedParameters, what: str, reference: Object, namespace: str) -> Object:
    kind, group, name = reference["kind"], reference.get("apiGroup") or "", reference["name"]
    if (group, kind) == (GROUP, f"Resource{what.title()}Parameters"):
        parameters = generated.informer.get(namespace, name)
        if parameters is None:
            shown = f"{namespace}/{name}" if namespace else name
            raise ClaimNotUsable(f"{what} parameters {shown} not found")
        return parameters
    return generated.only(what, reference, namespace)
