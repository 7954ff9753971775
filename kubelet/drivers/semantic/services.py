"""The services of a driver with semantic parameters: classic DRA's, with handles and resources of its own."""

from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.claims import ClaimError, ClaimRef
from kubeskew.kubelet.drivers.classic.services import ClassicServices
from kubeskew.kubelet.drivers.semantic.preparation import (
    Amount,
    amounts_in,
    resources_in,
    unavailable,
    variables_in,
)
from kubeskew.kubelet.protocols import semantic_resources


class SemanticServices(ClassicServices):
    def _response(self, resources: Sequence[Object]) -> Any:
        return semantic_resources.response_of(resources, newer_model=self.switches.newer_model)

    def _prepare(self, ref: ClaimRef, claim: Any) -> Sequence[str]:
        handles = claim.semantic_resource_handle
        if not handles:
            return super()._prepare(ref, claim)
        amounts = amounts_in(handles)
        held = dict(self._claims.allocations())
        if ref.uid not in held:  # what is prepared keeps what it has
            others = [Amount(*entry) for entries in held.values() for entry in entries]
            lacking = unavailable(self._resources() or (), others, resources_in(handles), amounts)
            if lacking:
                raise ClaimError(f"claim {ref.namespace}/{ref.name}: {lacking}")
        variables = variables_in(self._driver, handles, amounts)
        return self._claims.prepare_handle(ref, variables, [[*amount] for amount in amounts])
