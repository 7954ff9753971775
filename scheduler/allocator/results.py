"""A solution as the `allocation` of a claim's status."""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.allocator.errors import AllocationError
from scheduler.allocator.requests import ClaimPlan, RequestPlan
from scheduler.allocator.rules import AllocatorRules
from scheduler.allocator.search import Choice

Object = dict[str, Any]


def allocation_result(plan: ClaimPlan, choices: Sequence[Choice], node: str, rules: AllocatorRules) -> Object:
    """The AllocationResult; raises AllocationError if devices cannot be combined."""
    devices: Object = {}
    if choices:
        devices["results"] = [_device_result(choice) for choice in choices]
    config = [*_class_config(plan, rules), *_claim_config(plan, rules)]
    if config:
        devices["config"] = config
    result: Object = {"devices": devices}
    selector = _node_selector(choices, node)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _device_result(choice: Choice) -> Object:
    driver, pool, device = choice.device.id
    result: Object = {"request": choice.request.name, "driver": driver, "pool": pool, "device": device}
    if choice.request.admin_access:
        result["adminAccess"] = True
    return result


def _class_config(plan: ClaimPlan, rules: AllocatorRules) -> list[Object]:
    requests = [request for request in plan.requests if isinstance(request, RequestPlan)]
    entries: list[Object] = []
    done: set[str] = set()
    for request in requests:
        name = request.device_class["metadata"]["name"]
        if rules.class_config_once and name in done:
            continue
        done.add(name)
        same = [each.name for each in requests if each.device_class["metadata"]["name"] == name]
        for config in (request.device_class.get("spec") or {}).get("config") or ():
            entry: Object = {"source": "FromClass", **config}
            if rules.class_config_once and not (rules.claim_config_once and len(same) == len(requests)):
                entry["requests"] = same
            entries.append(entry)
    return entries


def _claim_config(plan: ClaimPlan, rules: AllocatorRules) -> list[Object]:
    requests = [request.name for request in plan.requests if isinstance(request, RequestPlan)]
    entries: list[Object] = []
    for config in (plan.claim["spec"].get("devices") or {}).get("config") or ():
        named = config.get("requests") or []
        # Up to 1.36 there is one copy per request that the config names.
        copies = sum(1 for name in requests if name in named) if named else 1
        if rules.claim_config_once:
            copies = min(copies, 1)
        entries.extend({"source": "FromClaim", **config} for _ in range(copies))
    return entries


def _node_selector(choices: Sequence[Choice], node: str) -> Object | None:
    """Where the devices can be used together; None is everywhere."""
    fields: list[Mapping[str, Any]] = []
    expressions: list[Mapping[str, Any]] = []
    for choice in choices:
        spec = choice.device.slice
        selection = choice.device.spec if spec.get("perDeviceNodeSelection") else spec
        if selection.get("nodeName"):
            only = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        selector = selection.get("nodeSelector")
        if selector is not None:
            term = _single_term(selector)
            _merge(fields, term.get("matchFields") or ())
            _merge(expressions, term.get("matchExpressions") or ())
    term = {"matchExpressions": expressions, "matchFields": fields}
    present = {key: value for key, value in term.items() if value}
    return {"nodeSelectorTerms": [present]} if present else None


def _single_term(selector: Mapping[str, Any]) -> Mapping[str, Any]:
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        raise AllocationError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
    term: Mapping[str, Any] = terms[0]
    return term


def _merge(requirements: list[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> None:
    requirements.extend(each for each in more if each not in requirements)
