"""Allocates claims by structured parameters, as 1.30 does: finds the parameters of classes and claims, and
allocates named resources, the only model, first fit and each request by itself.

Sources: pkg/scheduler/framework/plugins/dynamicresources, 1.30 (lookupParameters);
pkg/scheduler/framework/plugins/dynamicresources/structured, 1.30.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.named_resources import compile_selector, instance_matches
from kubeskew.apimachinery.cel.program import Program
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation, display
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import (
    GROUP,
    UNSUITABLE,
    AllocationError,
    GeneratedParameters,
)

Slices = Callable[[], Sequence[Object]]


class Parameters:
    """Finds the objects to which vendors' parameters were translated."""

    def __init__(self, of_classes: Informer, of_claims: Informer) -> None:
        self._of_classes = GeneratedParameters(of_classes, same_namespace=False)
        self._of_claims = GeneratedParameters(of_claims)

    def of_class(self, resource_class: Object) -> Object:
        """Raises ClaimNotUsable if there are none, ParametersError if they are ambiguous."""
        reference = resource_class.get("parametersRef")
        if reference is None:
            return {}
        return _find(self._of_classes, "class", reference, reference.get("namespace") or "")

    def of_claim(self, claim: Object, resource_class: Object) -> Object:
        """Raises ClaimNotUsable if there are none, ParametersError if they are ambiguous."""
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


class NamedResourcesError(AllocationError):
    """A selector or the parameters as a whole cannot be used; the text is upstream's."""


class ResourceModel:
    """Instances of all nodes' slices, without those that claims have."""

    def __init__(self, slices: Iterable[Object], claims: Iterable[Object]) -> None:
        """`claims` include the allocations that are in flight."""
        taken = {taken for claim in claims for taken in _taken(claim)}
        self._free: dict[tuple[str, str], list[Object]] = {}
        for slice_ in slices:
            node, driver = slice_.get("nodeName") or "", slice_["driverName"]
            for instance in (slice_.get("namedResources") or {}).get("instances") or ():
                if (node, driver, instance["name"]) not in taken:
                    self._free.setdefault((node, driver), []).append(instance)

    def free(self, node: str, driver: str) -> Sequence[Object]:
        return self._free.get((node, driver), ())


def _taken(claim: Object) -> Iterable[tuple[str, str, str]]:
    for handle in (allocation(claim) or {}).get("resourceHandles") or ():
        structured = handle.get("structuredData") or {}
        for result in structured.get("results") or ():
            name = (result.get("namedResources") or {}).get("name")
            if name:
                yield structured.get("nodeName") or "", handle.get("driverName") or "", name


@dataclass(slots=True)
class _DriverRequests:
    driver: str
    parameters: Any  # the vendor's, for the claim
    filter: Program | None
    requests: list[tuple[Program, Any]]  # selector, the vendor's parameters


class StructuredClaim:
    def __init__(
        self,
        resource_class: Object,
        class_parameters: Mapping[str, Any],
        claim_parameters: Mapping[str, Any],
    ) -> None:
        """Raises NamedResourcesError."""
        self.driver: str = resource_class["driverName"]
        self._shareable = bool(claim_parameters.get("shareable"))
        vendors = class_parameters.get("vendorParameters") or ()
        self._vendor_parameters = {vendor["driverName"]: vendor.get("parameters") for vendor in vendors}
        filters = class_parameters.get("filters") or ()
        by_driver = {entry.get("driverName", ""): entry for entry in filters}
        self._requests = [
            _driver_requests(entry, by_driver.get(entry.get("driverName", "")))
            for entry in _supported(claim_parameters)
        ]

    def suits(self, node: str, model: ResourceModel) -> bool:
        """Every request must find an instance on the node. Raises NamedResourcesError."""
        for driver in self._requests:
            try:
                if self._chosen(driver, node, model) is None:
                    return False
            except EvaluationError as error:
                where = f'checking node "{node}" and resources of driver "{driver.driver}"'
                raise NamedResourcesError(f"{where}: {error}") from error
        return True

    def allocate(self, node: str, model: ResourceModel) -> Object:
        """Claims of one pod know nothing of each other, and may get the same instance, as upstream.

        Raises NamedResourcesError.
        """
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        handles = [self._handle(driver, node, model) for driver in self._requests]
        result: Object = {
            "availableOnNodes": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]},
        }
        if handles:
            result["resourceHandles"] = handles
        if self._shareable:
            result["shareable"] = True
        return result

    def _handle(self, driver: _DriverRequests, node: str, model: ResourceModel) -> Object:
        what = "allocating via named resources structured model"
        try:
            chosen = self._chosen(driver, node, model)
        except EvaluationError as error:
            raise NamedResourcesError(f"{what}: {error}") from error
        if chosen is None:
            raise NamedResourcesError(f"{what}: insufficient resources")
        results = []
        for instance, (_, parameters) in zip(chosen, driver.requests, strict=True):
            given = {} if parameters is None else {"vendorRequestParameters": parameters}
            results.append({**given, "namedResources": {"name": instance["name"]}})
        structured: Object = {"nodeName": node, "results": results}
        of_class = self._vendor_parameters.get(driver.driver)
        if of_class is not None:
            structured["vendorClassParameters"] = of_class
        if driver.parameters is not None:
            structured["vendorClaimParameters"] = driver.parameters
        return {"driverName": driver.driver, "structuredData": structured}

    @staticmethod
    def _chosen(driver: _DriverRequests, node: str, model: ResourceModel) -> list[Object] | None:
        """One instance per request, or None if a request finds none. Raises EvaluationError with what was
        evaluated."""
        instances = model.free(node, driver.driver)
        chosen: dict[int, Object] = {}
        for selector, _ in driver.requests:
            for index, instance in enumerate(instances):
                if index in chosen:
                    continue
                if driver.filter is not None and not _evaluate(driver.filter, instance, "filter"):
                    continue
                if _evaluate(selector, instance, "request"):
                    chosen[index] = instance
                    break
            else:
                return None
        return [*chosen.values()]


def _supported(claim_parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Raises NamedResourcesError if a request has no model that is known."""
    entries = claim_parameters.get("driverRequests") or ()
    for position, entry in enumerate(entries):
        for place, request in enumerate(entry.get("requests") or ()):
            if request.get("namedResources") is None:
                name, at = display(claim_parameters), f"driverRequests[{position}].requests[{place}]"
                text = f"claim parameters {name}: {at}: no supported structured parameters found"
                raise NamedResourcesError(text)
    return entries


def _driver_requests(entry: Mapping[str, Any], class_filter: Mapping[str, Any] | None) -> _DriverRequests:
    selected = ((class_filter or {}).get("namedResources") or {}).get("selector")
    program = _compiled(selected, "class filter") if selected else None
    requests = [
        (
            _compiled(request["namedResources"].get("selector") or "", "request"),
            request.get("vendorParameters"),
        )
        for request in entry.get("requests") or ()
    ]
    return _DriverRequests(entry.get("driverName", ""), entry.get("vendorParameters"), program, requests)


def _compiled(expression: str, what: str) -> Program:
    try:
        return compile_selector(expression)
    except CompileError as error:
        model = "creating claim controller for named resources structured model"
        raise NamedResourcesError(f"{model}: compile {what} CEL expression: {error}") from error


def _evaluate(program: Program, instance: Object, what: str) -> bool:
    try:
        return instance_matches(program, instance)
    except EvaluationError as error:
        raise EvaluationError(f"evaluate {what} CEL expression: {error}") from error


class FreeInstances:
    def __init__(self, model: ResourceModel) -> None:
        self._model = model

    def check(self, node: NodeInfo, claims: Sequence[StructuredClaim]) -> Status:
        try:
            suits = all(claim.suits(node.name, self._model) for claim in claims)
        except NamedResourcesError as error:
            return unresolvable(f"checking structured parameters failed: {error}")
        return SUCCESS if suits else UNSUITABLE

    def allocate(self, node: str, claims: Sequence[StructuredClaim]) -> list[Object]:
        return [claim.allocate(node, self._model) for claim in claims]


class StructuredAllocation:
    """Allocates the claims of classes with `structuredParameters`."""

    def __init__(self, claims: ClaimTracker, parameters: Parameters, slices: Slices) -> None:
        self._claims = claims
        self._parameters = parameters
        self._slices = slices
        self._in_flight: dict[str, Object] = {}  # by uid: claims with the allocation that they will get

    def handles(self, resource_class: Object) -> bool:
        return bool(resource_class.get("structuredParameters"))

    def claim(self, claim: Object, resource_class: Object) -> StructuredClaim:
        of_class = self._parameters.of_class(resource_class)
        return StructuredClaim(resource_class, of_class, self._parameters.of_claim(claim, resource_class))

    def resources(self) -> FreeInstances:
        return FreeInstances(ResourceModel(self._slices(), self._known()))

    def _known(self) -> Iterator[Object]:
        for claim in self._claims.all():
            if claim["metadata"]["uid"] not in self._in_flight:
                yield claim
        yield from self._in_flight.values()

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def decide(self, claim: Object, result: Object) -> None:
        status = {**(claim.get("status") or {}), "allocation": result}
        self._in_flight[claim["metadata"]["uid"]] = {**claim, "status": status}

    def land(self, claim: Object, *, written: bool) -> None:
        self._in_flight.pop(claim["metadata"]["uid"], None)

    def simulated(self, claims: ClaimTracker) -> tuple[ClaimTracker, "SimulatedStructuredAllocation"]:
        copy = claims.copy()
        return copy, SimulatedStructuredAllocation(copy, self._parameters, self._slices())


class SimulatedStructuredAllocation(StructuredAllocation):
    """Allocates from slices that do not change but for nodes that are added."""

    def __init__(self, claims: ClaimTracker, parameters: Parameters, slices: Sequence[Object]) -> None:
        super().__init__(claims, parameters, lambda: self._simulated)
        self._simulated = list(slices)

    def add_node(self, name: str, origin: str) -> None:
        found = [slice_ for slice_ in self._simulated if slice_.get("nodeName") == origin]
        self._simulated += [{**slice_, "nodeName": name} for slice_ in found]

    def remove_node(self, name: str) -> None:
        self._simulated = [slice_ for slice_ in self._simulated if slice_.get("nodeName") != name]
