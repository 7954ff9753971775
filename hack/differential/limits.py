"""The limits of what a client may send, each with requests below, at and above it."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Step = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limit:
    """`make` returns the request with so many of what is counted, of which `most` are taken by upstream.

    `slack` is how far below and above that the requests are, where the exact place depends on how the rest of
    the request is written. `ours` is this server's limit where it is another one.
    """

    what: str
    unit: str
    most: int
    make: Callable[[int], Step]
    since: int = 31
    slack: int = 1
    ours: int = 0
    beyond: int = 0  # where another limit is reached
    searched: bool = False  # the exact place between is found by asking a real server

    @property
    def numbers(self) -> Sequence[int]:
        near = (self.most - self.slack, self.most, self.most + self.slack)
        numbers = near if self.slack == 1 else (near[0], near[2])
        if self.ours:
            numbers = (self.ours - self.slack, numbers[-1])
        return (*numbers, *filter(None, [self.beyond]))


def _post(path: str, body: Any, **headers: str) -> Step:
    return {"method": "POST", "path": path, "headers": headers, "body": body}


def _made(kind: str, version: str = "v1", name: str = "new", **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def _padded(size: int) -> Step:
    text = json.dumps(_made("ConfigMap"))
    return _post(f"{MAPS}?dryRun=All", text + " " * (size - len(text)))


def _nested(depth: int) -> Step:
    """The object is the first level, and its field the second."""
    inner = "[" * (depth - 1) + "]" * (depth - 1)
    return _post(f"{MAPS}?dryRun=All&fieldValidation=Ignore", '{"metadata":{"name":"new"},"x":' + inner + "}")


def _patched(count: int) -> Step:
    operation = {"op": "test", "path": "/metadata/name", "value": "limits"}
    return {
        "method": "PATCH",
        "path": f"{MAPS}/limits?dryRun=All",
        "headers": {"Content-Type": "application/json-patch+json"},
        "body": json.dumps([operation] * count, separators=(",", ":")),
    }


def _copied(count: int) -> Step:
    """A value of 65,536 bytes is added and copied."""
    first = {"op": "add", "path": "/data", "value": {"a": "x" * 65_534}}
    copies = [{"op": "copy", "from": "/data/a", "path": f"/data/b{n % 8}"} for n in range(count)]
    return {
        "method": "PATCH",
        "path": f"{MAPS}/limits?dryRun=All",
        "headers": {"Content-Type": "application/json-patch+json"},
        "body": json.dumps([first, *copies]),
    }


def _aliases(levels: int) -> Step:
    """Each level of YAML has nine aliases of the one before."""
    lines = ["apiVersion: v1", "kind: ConfigMap", "metadata: {name: new}", "x0: &x0 [a,a,a,a,a,a,a,a,a]"]
    lines += [f"x{level}: &x{level} [{','.join([f'*x{level - 1}'] * 9)}]" for level in range(1, levels)]
    headers = {"Content-Type": "application/yaml"}
    return {"method": "POST", "path": f"{MAPS}?dryRun=All&fieldValidation=Ignore", "headers": headers,
            "body": "\n".join(lines)}  # fmt: skip


def _named(**metadata: Callable[[int], Any]) -> Callable[[int], Step]:
    def make(size: int) -> Step:
        body = _made("ConfigMap")
        for name, value in metadata.items():
            body["metadata"][name] = value(size)
        return _post(f"{MAPS}?dryRun=All", body)

    return make


def _event(size: int) -> Step:
    involved = {"kind": "Pod", "namespace": "default", "name": "a"}
    return _post(
        "/api/v1/namespaces/default/events",
        _made("Event", name=f"e{size}", involvedObject=involved, reason="a", message="x" * size),
    )


def _pod(**spec: Callable[[int], Any]) -> Callable[[int], Step]:
    def make(count: int) -> Step:
        whole: dict[str, Any] = {
            "containers": [{"name": "a", "image": "b"}],
            "automountServiceAccountToken": False,
        }
        whole.update({name: value(count) for name, value in spec.items()})
        return _post("/api/v1/namespaces/default/pods?dryRun=All", _made("Pod", spec=whole))

    return make


def _claim(**request: Callable[[int], Any]) -> Callable[[int], Step]:
    def make(count: int) -> Step:
        exactly = {"deviceClassName": "c", **{name: value(count) for name, value in request.items()}}
        spec = {"devices": {"requests": [{"name": "a", "exactly": exactly}]}}
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims?dryRun=All"
        return _post(path, _made("ResourceClaim", "resource.k8s.io/v1", spec=spec))

    return make


def _claims(make_devices: Callable[[int], dict[str, Any]]) -> Callable[[int], Step]:
    def make(count: int) -> Step:
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims?dryRun=All"
        return _post(
            path, _made("ResourceClaim", "resource.k8s.io/v1", spec={"devices": make_devices(count)})
        )

    return make


def _request(number: int) -> dict[str, Any]:
    return {"name": f"r{number}", "exactly": {"deviceClassName": "c"}}


def _slice(make_devices: Callable[[int], Any]) -> Callable[[int], Step]:
    def make(count: int) -> Step:
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": make_devices(count)}
        return _post(
            "/apis/resource.k8s.io/v1/resourceslices?dryRun=All",
            _made("ResourceSlice", "resource.k8s.io/v1", spec=spec),
        )

    return make


def _endpoints(
    endpoints: Callable[[int], Any], ports: Callable[[int], Any] | None = None
) -> Callable[[int], Step]:
    def make(count: int) -> Step:
        body = _made("EndpointSlice", "discovery.k8s.io/v1", addressType="IPv4", endpoints=endpoints(count))
        if ports is not None:
            body["ports"] = ports(count)
        return _post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?dryRun=All", body)

    return make


def _address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _webhook(seconds: int) -> Step:
    hook = {
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com"}, "timeoutSeconds": seconds,
    }  # fmt: skip
    return _post(
        f"{_ADMISSION}/validatingwebhookconfigurations?dryRun=All",
        _made("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", webhooks=[hook]),
    )


def _conditions(count: int) -> Step:
    step = _webhook(10)
    conditions = [{"name": f"a{number}", "expression": "true"} for number in range(count)]
    step["body"]["webhooks"][0]["matchConditions"] = conditions
    return step


def _definition(
    schema: Callable[[int], dict[str, Any]], **version: Callable[[int], Any]
) -> Callable[[int], Step]:
    def make(count: int) -> Step:
        whole = {"type": "object", "properties": {"spec": schema(count)}}
        served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
        served.update({name: value(count) for name, value in version.items()})
        names = {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [served]}
        return _post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All",
            _made("CustomResourceDefinition", "apiextensions.k8s.io/v1", "limits.example.com", spec=spec),
        )

    return make


def _costly(count: int) -> dict[str, Any]:
    """The rule reads every item of a list of so many at most."""
    rule = {"rule": "self.all(x, self.all(y, x == y))"}
    items = {"type": "string", "maxLength": 10}
    return {"type": "object", "properties": {"x": {
        "type": "array", "maxItems": count, "items": items, "x-kubernetes-validations": [rule]}}}  # fmt: skip


def _twice_through(count: int) -> str:
    items = f"[{','.join(['1'] * count)}]"
    return f"{items}.all(x, {items}.all(y, x == y))"


def _affine(seconds: int) -> dict[str, Any]:
    return {"clientIP": {"timeoutSeconds": seconds}}


def _named_port(number: int) -> dict[str, Any]:
    return {"name": f"p{number}", "port": number % 65_535 + 1}


def _token(seconds: int) -> Step:
    return _post(
        "/api/v1/namespaces/default/serviceaccounts/default/token?dryRun=All",
        {"spec": {"expirationSeconds": seconds}},
    )


def _priority(value: int) -> Step:
    return _post(
        "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All",
        _made("PriorityClass", "scheduling.k8s.io/v1", value=value),
    )


def _namespace(size: int) -> Step:
    return _post("/api/v1/namespaces?dryRun=All", _made("Namespace", name="a" * size))


def _service(**spec: Callable[[int], Any]) -> Callable[[int], Step]:
    def make(count: int) -> Step:
        whole: dict[str, Any] = {"ports": [{"port": 80}]}
        whole.update({name: value(count) for name, value in spec.items()})
        return _post("/api/v1/namespaces/default/services?dryRun=All", _made("Service", spec=whole))

    return make


def _manager(size: int) -> Step:
    return _post(f"{MAPS}?dryRun=All&fieldManager={'m' * size}", _made("ConfigMap"))


def _data(kind: str) -> Callable[[int], Step]:
    def make(size: int) -> Step:
        key = "data" if kind == "ConfigMap" else "stringData"
        path = f"/api/v1/namespaces/default/{kind.lower()}s?dryRun=All"
        return _post(path, _made(kind, **{key: {"a": "x" * size}}))

    return make


def _affinity(weight: int) -> dict[str, Any]:
    term = {"topologyKey": "a", "labelSelector": {}}
    preferred = [{"weight": weight, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


LIMITS = (
    Limit("a request's body", "bytes", 3 * _MIB, _padded),
    Limit("brackets inside each other in a body", "levels", 10_000, _nested, ours=230),
    Limit("aliases of YAML in a body", "levels of nine each", 6, _aliases, slack=3, searched=True),
    Limit("operations of a JSON patch", "operations", 10_000, _patched),
    Limit("bytes that a JSON patch copies", "copies of 65,536 bytes", 48, _copied, slack=2, searched=True),
    Limit("an object in the store", "bytes of a message", 3 * _MIB // 2, _event, slack=_MIB // 8,
        beyond=9 * _MIB // 4),
    Limit("data of a ConfigMap", "bytes", _MIB, _data("ConfigMap")),
    Limit("data of a Secret", "bytes", _MIB, _data("Secret")),
    Limit("annotations", "bytes", 262_144, _named(annotations=lambda n: {"a": "x" * (n - 1)})),
    Limit("a field manager's name", "bytes", 128, _manager),
    Limit("most names", "characters", 253, _named(name=lambda n: "a" * n)),
    Limit("a namespace's name", "characters", 63, _namespace),
    Limit("a label's value", "characters", 63, _named(labels=lambda n: {"a": "x" * n})),
    Limit("a label's name", "characters", 63, _named(labels=lambda n: {"x" * n: ""})),
    Limit("a label's prefix", "characters", 253, _named(labels=lambda n: {f"{'x' * n}/a": ""})),
    Limit("a finalizer's name", "characters", 63, _named(finalizers=lambda n: ["example.com/" + "x" * n])),
    Limit("a container's name", "characters", 63, _pod(
        containers=lambda n: [{"name": "a" * n, "image": "b"}])),
    Limit("a pod's DNS servers", "servers", 3, _pod(
        dnsPolicy=lambda _: "None", dnsConfig=lambda n: {"nameservers": ["10.0.0.1"] * n})),
    Limit("a pod's search domains", "domains", 32, _pod(
        dnsConfig=lambda n: {"searches": [f"d{number}.example" for number in range(n)]})),
    Limit("a pod's host name", "characters", 63, _pod(hostname=lambda n: "a" * n)),
    Limit("the weight of an affinity", "", 100, _pod(affinity=lambda n: _affinity(n))),
    Limit("a pod's grace", "seconds of int64", 2**63 - 1, _pod(terminationGracePeriodSeconds=lambda n: n)),
    Limit("a port", "", 65_535, _service(ports=lambda n: [{"port": n}])),
    Limit("the time of session affinity", "seconds", 86_400, _service(
        sessionAffinity=lambda _: "ClientIP", sessionAffinityConfig=_affine)),
    Limit("a token's time", "seconds", 1 << 32, _token),
    Limit("a priority", "", 1_000_000_000, _priority),
    Limit("endpoints of a slice", "endpoints", 1000, _endpoints(
        lambda n: [{"addresses": [_address(number)]} for number in range(n)])),
    Limit("addresses of an endpoint", "addresses", 100, _endpoints(
        lambda n: [{"addresses": [_address(number) for number in range(n)]}])),
    Limit("ports of a slice", "ports", 20_000, _endpoints(
        lambda _: [], lambda n: [*map(_named_port, range(n))])),
    Limit("a webhook's time", "seconds", 30, _webhook),
    Limit("a webhook's match conditions", "conditions", 64, _conditions),
    Limit("the estimated cost of a definition's rule", "items of a list, twice through", 1_000, _definition(
        _costly), slack=900, searched=True),
    Limit("selectable fields of a definition", "fields", 8, _definition(
        lambda n: {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(n)}},
        selectableFields=lambda n: [{"jsonPath": f".spec.f{number}"} for number in range(n)]), since=32),
    Limit("requests of a claim", "requests", 32, _claims(
        lambda n: {"requests": [_request(number) for number in range(n)]}), since=34),
    Limit("constraints of a claim", "constraints", 32, _claims(
        lambda n: {"requests": [_request(0)], "constraints": [
            {"requests": ["r0"], "matchAttribute": "d.example.com/a"}] * n}), since=34),
    Limit("configurations of a claim", "configurations", 32, _claims(
        lambda n: {"requests": [_request(0)], "config": [
            {"opaque": {"driver": "d.example.com", "parameters": {}}}] * n}), since=34),
    Limit("opaque parameters", "bytes", 10 * 1024, _claims(
        lambda n: {"requests": [_request(0)], "config": [
            {"opaque": {"driver": "d.example.com", "parameters": {"a": "x" * (n - 9)}}}]}), since=34),
    Limit("selectors of a request", "selectors", 32, _claim(
        selectors=lambda n: [{"cel": {"expression": "true"}}] * n), since=34),
    Limit("a selector's expression", "bytes", 10 * 1024, _claim(
        selectors=lambda n: [{"cel": {"expression": f'"{"x" * (n - 8)}" == ""'}}]), since=34),
    Limit("the estimated cost of a selector", "items, twice through", 1_000, _claim(
        selectors=lambda n: [{"cel": {"expression": _twice_through(n)}}]),
        slack=600, searched=True, since=34),
    Limit("devices of a slice", "devices", 128, _slice(
        lambda n: [{"name": f"d{number}"} for number in range(n)]), since=34),
    Limit("attributes of a device", "attributes", 32, _slice(
        lambda n: [{"name": "d", "attributes": {f"a{number}": {"int": 1} for number in range(n)}}]),
        since=34),
    Limit("a text among attributes", "characters", 64, _slice(
        lambda n: [{"name": "d", "attributes": {"a": {"string": "x" * n}}}]), since=34),
)  # fmt: skip

PREPARED = (
    (MAPS, _made("ConfigMap", name="limits")),
    ("/api/v1/namespaces/default/serviceaccounts", _made("ServiceAccount", name="default")),
)
_SIZE = re.compile(r"\(\d+ vs")  # ours is not exact
_LONG = re.compile(r"(.)\1{40,}")


def of_release(minor: int) -> Iterable[Limit]:
    """Returns the limits that a release has."""
    return [limit for limit in LIMITS if minor >= limit.since]


def said(status: int, text: str) -> list[Any]:
    """Returns what is compared: the code, and of errors message and reason, with runs of a character cut."""
    if status < 400:
        return [status]
    try:
        body = json.loads(text)
    except ValueError:
        return [status, _LONG.sub(r"\1…", text)[:300]]
    if not isinstance(body, Mapping) or body.get("kind") != "Status":
        return [status, text[:300]]
    message = _SIZE.sub("(… vs", _LONG.sub(r"\1…", body.get("message", "")))
    return [status, body.get("reason", ""), message[:300]]
