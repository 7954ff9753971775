"""Writes a solution as the `allocation` of a claim's status."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.requests import ClaimPlan, RequestPlan
from kubeskew.scheduler.allocator.solution import Choice, ClaimSolution


def allocation_result(
    plan: ClaimPlan,
    solution: ClaimSolution,
    node: str,
    features: AllocatorFeatures,
    share_id: Callable[[], str],
) -> Object:
    """Returns the AllocationResult; raises AllocationError if devices cannot be combined."""
    devices: Object = {}
    if solution.choices:
        devices["results"] = [_device_result(choice, features, share_id) for choice in solution.choices]
    config = [*_class_config(solution.options, features), *_claim_config(plan, solution.options, features)]
    if features.unnamed_config:
        config = [_without_all_names(entry, solution.options) for entry in config]
    if config:
        devices["config"] = config
    result: Object = {"devices": devices}
    try:
        selector = _node_selector(solution.choices, node, features)
    except AllocationError as error:
        name = plan.claim["metadata"]["name"]
        raise AllocationError(f"create NodeSelector for claim {name}: {error}") from None
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _device_result(choice: Choice, features: AllocatorFeatures, share_id: Callable[[], str]) -> Object:
    request, gates = choice.request, features.gates
    driver, pool, device = choice.device.id
    spec = choice.device.spec
    result: Object = {"request": request.name, "driver": driver, "pool": pool, "device": device}
    if request.admin_access:
        result["adminAccess"] = True
    if request.tolerations and features.tolerations_in_results:
        result["tolerations"] = list(request.tolerations)
    if gates.binding_conditions:
        for key in ("bindingConditions", "bindingFailureConditions"):
            if spec.get(key):
                result[key] = spec[key]
    if choice.taken is not None:
        result["shareID"] = share_id()
        if choice.taken:
            result["consumedCapacity"] = {name: str(amount) for name, amount in choice.taken.items()}
    skipped = choice.device.slice.spec.get("skipNodeOperations")
    if skipped and gates.optional_node_operations:
        result["skipNodeOperations"] = skipped
    return result


def _class_config(options: Sequence[RequestPlan], features: AllocatorFeatures) -> list[Object]:
    entries: list[Object] = []
    done: set[str] = set()
    for option in options:
        name = option.device_class["metadata"]["name"]
        if features.class_config_once and name in done:
            continue
        done.add(name)
        same = [option.name for option in options if option.device_class["metadata"]["name"] == name]
        for config in (option.device_class.get("spec") or {}).get("config") or ():
            entry: Object = {"source": "FromClass", **config}
            if features.class_config_once:
                entry["requests"] = same
            entries.append(entry)
    return entries


def _claim_config(
    plan: ClaimPlan, options: Sequence[RequestPlan], features: AllocatorFeatures
) -> list[Object]:
    entries: list[Object] = []
    for config in (plan.claim["spec"].get("devices") or {}).get("config") or ():
        named = config.get("requests") or []
        copies = sum(1 for option in options if option.base in named or option.name in named) if named else 1
        if not features.repeated_config:
            copies = min(copies, 1)
        entries.extend({"source": "FromClaim", **config} for _ in range(copies))
    return entries


def _without_all_names(entry: Object, options: Sequence[RequestPlan]) -> Object:
    """Removes the names of requests if all are named: no names mean all."""
    named = entry.get("requests") or ()
    if not all(option.base in named or option.name in named for option in options):
        return entry
    return {key: value for key, value in entry.items() if key != "requests"}


def _node_selector(choices: Sequence[Choice], node: str, features: AllocatorFeatures) -> Object | None:
    """Returns the selector of nodes where the devices can be used together; None is everywhere."""
    fields: list[Mapping[str, Any]] = []
    expressions: list[Mapping[str, Any]] = []
    for choice in choices:
        spec = choice.device.slice.spec
        selection = choice.device.spec if spec.get("perDeviceNodeSelection") else spec
        binds = features.knows_sharing and choice.device.spec.get("bindsToNode")
        if binds or selection.get("nodeName") is not None:
            only = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        selector = selection.get("nodeSelector")
        terms = (selector or {}).get("nodeSelectorTerms") or []
        if len(terms) > 1:
            raise AllocationError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _merge(fields, term.get("matchFields") or ())
            _merge(expressions, term.get("matchExpressions") or ())
    term = {"matchExpressions": expressions, "matchFields": fields}
    present = {key: value for key, value in term.items() if value}
    return {"nodeSelectorTerms": [present]} if present else None


def _merge(requirements: list[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> None:
    for requirement in more:
        if not any(_same(requirement, other) for other in requirements):
            requirements.append(requirement)


def _same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Returns whether values are equal in any order."""
    if (left.get("key"), left.get("operator")) != (right.get("key"), right.get("operator")):
        return False
    return set(left.get("values") or ()) == set(right.get("values") or ())
