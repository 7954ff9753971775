"""Finds the parameters of claims and classes that the scheduler is to allocate for.

Source: KEP-4381 as drafted, sections Using semantic parameters as claim parameters, ResourceClass extension
and ResourceClaimParameters.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.plugins.dynamicresources.generated_parameters import GeneratedParameters
from kubeskew.scheduler.plugins.dynamicresources.semantic.parameter_types import (
    ParameterType,
    ParameterTypes,
    type_of,
)

IN_TREE = ParameterType("resource.k8s.io", "ResourceClaimParameters")


class ClaimParameters(NamedTuple):
    """Holds what the scheduler reads, and the object that the user wrote, as it is kept in the allocation."""

    parameters: Object
    snapshot: Object | None


class SemanticParameters:
    """The parameters as they are now."""

    def __init__(self, of_claims: Informer, types: ParameterTypes) -> None:
        self._of_claims = of_claims
        self._generated = GeneratedParameters(of_claims)
        self._types = types

    def of_class(self, resource_class: Object) -> Object | None:
        """Returns the object that the class refers to. Raises ClaimNotUsable if it is not there."""
        reference = resource_class.get("parametersRef")
        if reference is None:
            return None
        return self._get(reference, reference.get("namespace") or "")

    def of_claim(self, claim: Object, resource_class: Object) -> ClaimParameters:
        """Raises ClaimNotUsable if they are not there, or not for what the user wants now.

        A claim without parameters asks for any resource, which it shares: so it is in 1.30.
        """
        reference, namespace = claim["spec"].get("parametersRef"), claim["metadata"]["namespace"]
        if reference is None:
            return ClaimParameters({"shareable": True}, None)
        wanted = type_of(reference)
        if wanted not in claim_types(resource_class):
            name = resource_class["metadata"]["name"]
            raise ClaimNotUsable(f"resource class {name} does not allow parameters of kind {wanted}")
        found = self._get(reference, namespace)
        if wanted == IN_TREE:
            return ClaimParameters(found, found)
        return ClaimParameters(self._translated(found, wanted, reference, namespace), found)

    def _get(self, reference: Mapping[str, Any], namespace: str) -> Object:
        wanted, name = type_of(reference), reference["name"]
        if wanted != IN_TREE:
            return self._types.get(wanted, namespace, name)
        found = self._of_claims.get(namespace, name)
        if found is None:
            raise ClaimNotUsable(f"claim parameters {namespace}/{name} not found")
        return {**found, "apiVersion": self._of_claims.ref.api_version, "kind": wanted.kind}

    def _translated(
        self, vendors: Object, wanted: ParameterType, reference: Mapping[str, Any], namespace: str
    ) -> Object:
        """Returns what the driver has made of the vendor's object as it is now."""
        uid, generation = vendors["metadata"]["uid"], vendors["metadata"].get("generation") or 0
        found = self._generated.only(
            "claim",
            reference,
            namespace,
            lambda origin: (origin.get("uid"), origin.get("generation") or 0) == (uid, generation),
            f" (generation {generation})",
        )
        return {**found, "kind": IN_TREE.kind}


def claim_types(resource_class: Object) -> list[ParameterType]:
    """Returns the types of claim parameters that the class allows."""
    return [type_of(given) for given in resource_class.get("parameterTypes") or ()]


def followed_types(resource_class: Object) -> list[ParameterType]:
    """Returns the types whose objects the class needs, without those that are always followed."""
    found = claim_types(resource_class)
    reference = resource_class.get("parametersRef")
    if found and reference is not None:
        found.append(type_of(reference))
    return [wanted for wanted in found if wanted != IN_TREE]
