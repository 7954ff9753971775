"""Decoding, defaults, strategies and rules alone give a real server's answers to creates."""

import copy
import json
import re
from typing import Any

import pytest
from recorded import DATA
from rule_checks import NOW, context_of

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.errors import StatusError, invalid
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.defaulting import DefaultingContext, apply_defaults
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.apiserver.registry.generic.strategy import strategy_of

DATA = DATA / "real-1.36"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
# Made by admission, by later minors or at random.
_ELSEWHERE = {
    "tolerations", "priority", "preemptionPolicy", "serviceAccount", "serviceAccountName", "resizePolicy",
    "clusterIP", "clusterIPs", "nodePort", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "secrets",
    "taints",
}  # fmt: skip
# Need the version of the request, plugins of admission or what an earlier step made.
_NOT_OFFLINE = {
    ("events-new-api-validation", 422): "which API an event came by is not in the hub object",
    ("pod-invalid-spec", 403): "admission refuses a priority class that does not exist",
}


def _filled(value: Any, names: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    if not isinstance(value, str):
        return value
    alone = re.fullmatch(r"\$\{(\w+)\}", value)
    if alone and alone[1] in names:
        return _filled(copy.deepcopy(names[alone[1]]), names)
    for _ in range(4):
        value = re.sub(r"\$\{(\w+)\}", lambda found: str(names.get(found[1], found[0])), value)
    return value


def _cases() -> list[Any]:
    found = []
    for file in sorted(DATA.glob("strict-*.golden.json")):
        for sequence in json.loads(file.read_text())["sequences"]:
            names = {**sequence.get("vars", {}), "run": "run"}
            for position, step in enumerate(sequence["steps"], 1):
                status = step.get("expect", {}).get("status")
                if step.get("method") != "POST" or status not in {201, 400, 422} or "body" not in step:
                    continue
                path = _filled(step["path"], names).partition("?")[0].strip("/").split("/")
                if path[-2] == "pods" or path[-1] == "binding" or (sequence["name"], status) in _NOT_OFFLINE:
                    continue
                case = (path, _filled(step["body"], names), step, names)
                found.append(pytest.param(*case, id=f"{sequence['name']}-{position}"))
    return found


def _create(path: list[str], body: Any) -> dict[str, Any]:
    """The object that a POST makes, as the registry would; raises StatusError."""
    catalogue = catalogue_for(Version(36))
    group, version = ("", path[1]) if path[0] == "api" else (path[1], path[2])
    resource = catalogue.resource(group, version, path[-1])
    assert resource is not None
    decoded = decoder.decode(json.dumps(body).encode(), "application/json", resource, catalogue)
    context = DefaultingContext(Features.of(catalogue.gates), NOW)
    obj = apply_defaults(decoded.object, resource.schema, context)
    metadata = obj["metadata"]
    metadata.update(uid="u", creationTimestamp="2026-01-01T00:00:00Z")
    metadata.setdefault("name", metadata.get("generateName", "") + "x" if "generateName" in metadata else "")
    if resource.namespaced:
        metadata["namespace"] = "run"
    served, resource = resource, catalogue.by_kind(*resource.storage) or resource
    obj = convert(obj, resource.gvk, catalogue)
    strategy = strategy_of(resource.group_resource)()
    ctx = context_of(catalogue, resource)
    strategy.prepare_for_create(obj, ctx)
    drop_disabled(obj, None, resource.schema, catalogue.gates)
    errors = strategy.check_new(obj, ctx, strategy.metadata_errors(obj, ctx))
    if errors:
        raise invalid(resource.group_kind, metadata["name"], errors)
    if strategy.loses_defaults:  # the answer is read from what was stored
        obj = apply_defaults(obj, resource.schema, context)
    return convert(obj, served.gvk, catalogue)


def _values(value: Any, path: str) -> list[Any]:
    found = [value]
    for plain, quoted, where, wanted in re.findall(r'([^.\[\]]+)|\["([^"]+)"\]|\[([^=\]]+)=([^\]]+)\]', path):
        name, step = plain or quoted, []
        for one in found:
            if where:
                step += [item for item in one or [] if item.get(where) == wanted]
            elif name == "*":
                step += list(one if isinstance(one, list) else one.values())
            elif isinstance(one, dict) and name in one:
                step.append(one[name])
        found = step
    return found


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _comparable(item) for key, item in value.items() if key not in _ELSEWHERE}
        return {key: item for key, item in kept.items() if item is not None}
    if isinstance(value, str) and _TIME.fullmatch(value):
        return "<microtime>" if "." in value else "<time>"
    return [_comparable(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("path", "body", "step", "names"), _cases())
def test_a_create_gives_what_the_real_server_gave(path: Any, body: Any, step: Any, names: Any) -> None:
    """The object, or the same causes of refusal (exact messages where the recording says so)."""
    expected = step["expect"]
    if expected["status"] != 201:
        with pytest.raises(StatusError) as caught:
            _create(path, body)
        _same_refusal(caught.value.status(), _filled(expected["body"], names), step)
        return
    made = _create(path, body)
    wanted = _filled(expected.get("body") or {}, names)
    if step.get("compare") == "status":
        return
    if "pick" in step:
        for where in step["pick"]:
            if where.rpartition(".")[2] in _ELSEWHERE or "taints" in where or "finalizers" in where:
                continue
            recorded = _comparable(wanted.get(where, []))
            assert _comparable(_values(made, where)) == recorded, where
        return
    for name in (made.keys() | wanted.keys()) - {"metadata"} - _ELSEWHERE:
        assert _comparable(made.get(name)) == _comparable(wanted.get(name)), name


def _same_refusal(status: Any, wanted: Any, step: Any) -> None:
    assert (status["code"], status["reason"]) == (wanted["code"], wanted["reason"])
    if step.get("compare") == "full" and "<" not in wanted["message"]:  # several causes have no order
        assert status["message"] == wanted["message"]
    causes = wanted.get("details", {}).get("causes")
    if causes is not None:
        places = sorted((cause["field"], cause["reason"]) for cause in status["details"]["causes"])
        assert places == sorted((cause["field"], cause["reason"]) for cause in causes)
