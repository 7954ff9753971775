"""Allocates named resources, the only structured model of 1.30: first fit, each request by itself.

Source: pkg/scheduler/framework/plugins/dynamicresources/structured, 1.30.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.named_resources import compile_selector, instance_matches
from kubeskew.apimachinery.cel.program import Program
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import allocation, display
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import AllocationError


class NamedResourcesError(AllocationError):
    """A selector or the parameters as a whole cannot be used; the text is upstream's."""


class ResourceModel:
    """The instances of all nodes' slices, without those that some claim has."""

    def __init__(self, slices: Iterable[Object], claims: Iterable[Object]) -> None:
        """`claims` with the allocations that are in flight."""
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
    """A claim that the scheduler is to allocate."""

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
        """Returns whether the node has instances for every request. Raises NamedResourcesError."""
        for driver in self._requests:
            try:
                if self._chosen(driver, node, model) is None:
                    return False
            except EvaluationError as error:
                where = f'checking node "{node}" and resources of driver "{driver.driver}"'
                raise NamedResourcesError(f"{where}: {error}") from error
        return True

    def allocate(self, node: str, model: ResourceModel) -> Object:
        """Returns the claim's allocation. Raises NamedResourcesError.

        Claims of one pod know nothing of each other, and may get the same instance, as upstream.
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
        """An instance per request, or None. Raises EvaluationError with what was evaluated."""
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
    """Returns the requests by driver. Raises NamedResourcesError where one has no model that is known."""
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
