"""Makes random histories of requests, as recorded sequences are: one that comes out apart can be recorded."""

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from objects import Objects, places

from kubeskew.apimachinery.resources import Resource

Step = dict[str, Any]
JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
# Drawn by servers, so that two of them differ. An order of names by which a map was walked is none either.
IGNORED = ("**.clusterIP", "**.clusterIPs", "**.nodePort", "**.healthCheckNodePort", "columnDefinitions")
# Their objects act upon the requests of all histories: they are tried only, and never stored.
TRIED = {
    "apiservices", "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "flowschemas",
    "prioritylevelconfigurations", "servicecidrs", "priorityclasses",
    "validatingadmissionpolicies",  # a stored one gets a status of our server, upstream of another component
}  # fmt: skip
_WEIGHTS = {
    "pods": 4,
    "resourceclaims": 4,
    "resourceslices": 4,
    "deviceclasses": 2,
    "resourceclaimtemplates": 2,
    "jobs": 2,
}


@dataclass(slots=True)
class Named:
    """An object of a history: its path, and the body that was last sent."""

    resource: Resource
    name: str
    body: Any
    number: int
    tried: bool

    @property
    def collection(self) -> str:
        group = f"/apis/{self.resource.group}/" if self.resource.group else "/api/"
        space = "/namespaces/${run}" if self.resource.namespaced else ""
        return f"{group}{self.resource.version}{space}/{self.resource.plural}"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


@dataclass(slots=True)
class History:
    """The steps of a history as they are made."""

    objects: Objects
    chance: random.Random
    held: list[Named] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def request(
        self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        text = "&".join(f"{key}={value}" for key, value in (query or {}).items())
        step: Step = {"method": method, "path": path + (f"?{text}" if text else ""), **more}
        if body is not None:
            step["body"] = copy.deepcopy(body)
        self.steps.append(step)

    def options(self, one: Named) -> dict[str, str]:
        """Returns the query of a write."""
        chance, query = self.chance, dict[str, str]()
        if one.tried or chance.random() < 0.05:
            query["dryRun"] = "All"
        if chance.random() < 0.3:
            query["fieldValidation"] = chance.choice(("Strict", "Strict", "Warn", "Ignore", "Other"))
        if chance.random() < 0.1:
            query["fieldManager"] = chance.choice(("one", "two", "x" * 129))
        return query


def _times(chance: random.Random) -> int:
    return chance.choices((0, 1, 2, 3, 5), (3, 4, 3, 2, 1))[0]


def saves(one: Named) -> dict[str, Any]:
    """Returns what a write keeps of its answer: revision and uid."""
    return {"save": {f"rv-{one.number}": "metadata.resourceVersion", f"uid-{one.number}": "metadata.uid"}}


def _create(history: History, one: Named) -> None:
    chance = history.chance
    body = history.objects.changed(chance, one.resource.schema, one.body, _times(chance))
    if isinstance(body.get("metadata"), dict) and "name" in body["metadata"]:
        if chance.random() < 0.03:
            body["metadata"]["generateName"] = body["metadata"].pop("name") + "-"
        else:
            one.body = body
    history.request("POST", one.collection, body, history.options(one), **saves(one))


def _update(history: History, one: Named) -> None:
    chance = history.chance
    body = history.objects.changed(chance, one.resource.schema, one.body, _times(chance))
    # The version of a definition moves with its conditions, in the background.
    versioned = one.resource.plural != "customresourcedefinitions" and isinstance(body.get("metadata"), dict)
    if versioned and (version := chance.choice(("", "", f"${{rv-{one.number}}}", "1"))):
        body["metadata"]["resourceVersion"] = version
    history.request("PUT", one.path, body, history.options(one), **saves(one))


def _difference(old: Any, new: Any) -> Any:
    """Returns the merge patch that makes one object of another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif old[key] != value:
            patch[key] = _difference(old[key], value)
    return patch


def _merge(history: History, one: Named) -> None:
    chance = history.chance
    body = history.objects.changed(chance, one.resource.schema, one.body, max(1, _times(chance)))
    kind = chance.choice((MERGE, STRATEGIC))
    patch = _difference(one.body, body)
    if kind == STRATEGIC and chance.random() < 0.15 and isinstance(patch, dict):
        patch |= chance.choice(
            (
                {"$patch": "replace"},
                {"metadata": {"$retainKeys": ["name"]}},
                {"metadata": {"$patch": "delete"}},
            )
        )
    history.request(
        "PATCH", one.path, patch, history.options(one), headers={"Content-Type": kind}, **saves(one)
    )


def _json_patch(history: History, one: Named) -> None:
    chance, operations = history.chance, list[dict[str, Any]]()
    found = [*places(one.body, one.resource.schema)]
    for _ in range(chance.choice((1, 1, 2, 3)) if found else 0):
        place = chance.choice(found)
        other = chance.choice(found)
        operation = chance.choice(("add", "replace", "replace", "remove", "test", "copy", "move"))
        made: dict[str, Any] = {"op": operation, "path": _pointer(place.path)}
        if operation in {"add", "replace"}:
            made["value"] = history.objects.value(chance, place.schema, str(place.path[-1]))
        elif operation == "test":
            made["value"] = place.container[place.key]
        elif operation in {"copy", "move"}:
            made["from"] = _pointer(other.path)
        if operation == "add" and isinstance(place.path[-1], int) and chance.random() < 0.5:
            made["path"] = _pointer((*place.path[:-1], "-"))
        operations.append(made)
    history.request(
        "PATCH", one.path, operations, history.options(one), headers={"Content-Type": JSON}, **saves(one)
    )


def _pointer(path: tuple[str | int, ...]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _apply(history: History, one: Named) -> None:
    chance = history.chance
    body = history.objects.changed(chance, one.resource.schema, one.body, _times(chance))
    if chance.random() < 0.4:
        for key in chance.sample(sorted(body), min(len(body), 1)):
            if key not in {"apiVersion", "kind", "metadata"}:
                del body[key]
    query = {"fieldManager": chance.choice(("one", "two", "three")), **history.options(one)}
    if chance.random() < 0.4:
        query["force"] = "true"
    history.request("PATCH", one.path, body, query, headers={"Content-Type": APPLY}, **saves(one))


def _status(history: History, one: Named) -> None:
    """Writes a subresource: the status as a rule, else another that the resource has."""
    chance, schema = history.chance, one.resource.schema
    names = {*one.resource.subresources}
    others = sorted(
        names
        & {"scale", "resize", "ephemeralcontainers", "finalize", "approval", "binding", "eviction", "token"}
    )
    if "status" in names and (not others or chance.random() < 0.7):
        known = one.body.get("status", {}) if isinstance(one.body.get("status"), dict) else {}
        status = history.objects.value(chance, schema.fields["status"].schema, "status")
        if chance.random() < 0.5:
            body = {"status": {**known, **status} if isinstance(status, dict) else status}
            history.request(
                "PATCH",
                f"{one.path}/status",
                body,
                history.options(one),
                headers={"Content-Type": MERGE},
                **saves(one),
            )
        else:
            body = {**copy.deepcopy(one.body), "status": status}
            history.request("PUT", f"{one.path}/status", body, history.options(one), **saves(one))
    elif others:
        _other_subresource(history, one, chance.choice(others))


def _other_subresource(history: History, one: Named, name: str) -> None:
    chance, path = history.chance, f"{one.path}/{name}"
    if name == "scale":
        if chance.random() < 0.3:
            return history.request("GET", path)
        patch = {"spec": {"replicas": chance.choice((0, 1, 3, -1, "x", None))}}
        return history.request("PATCH", path, patch, history.options(one), headers={"Content-Type": MERGE})
    if name == "binding":
        body = {
            "metadata": {"name": one.name},
            "target": {"kind": chance.choice(("Node", "Pod", "")), "name": chance.choice(("n", ""))},
        }
        return history.request("POST", path, body, history.options(one))
    if name == "eviction":
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": chance.choice((one.name, "other", ""))},
        }
        return history.request("POST", path, body, history.options(one))
    if name == "token":
        spec = {
            "audiences": chance.choice(([], ["a"])),
            "expirationSeconds": chance.choice((600, 599, 3600, 2**33)),
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return history.request("POST", path, body, ignore=["status.token"])
    changed = history.objects.changed(chance, one.resource.schema, one.body, _times(chance))
    if name == "ephemeralcontainers" and isinstance(changed.get("spec"), dict):
        made = [
            {
                "name": "debug",
                "image": "busybox",
                **({"targetContainerName": "main"} if chance.random() < 0.5 else {}),
            }
        ]
        patch = {"spec": {"ephemeralContainers": made}}
        return history.request(
            "PATCH", path, patch, history.options(one), headers={"Content-Type": STRATEGIC}
        )
    if name == "resize":
        resources = history.objects.value(chance, _resources(one.resource), "resources")
        patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        return history.request(
            "PATCH", path, patch, history.options(one), headers={"Content-Type": STRATEGIC}
        )
    return history.request("PUT", path, changed, history.options(one), **saves(one))


def _resources(resource: Resource) -> Any:
    containers = resource.schema.fields["spec"].schema.fields["containers"].schema.items
    assert containers is not None
    return containers.fields["resources"].schema


def _delete(history: History, one: Named) -> None:
    chance = history.chance
    options: list[Any] = [
        None,
        {"gracePeriodSeconds": chance.choice((0, 0, 1, -1))},
        {"propagationPolicy": chance.choice(("Foreground", "Background", "Orphan", "Other"))},
        {"orphanDependents": True},
        {"preconditions": {"resourceVersion": f"${{rv-{one.number}}}"}},
        {"preconditions": {"uid": chance.choice((f"${{uid-{one.number}}}", "other"))}},
        {"dryRun": ["All"]},
        {"kind": "DeleteOptions", "apiVersion": "v1", "unknown": 1},
    ]
    chosen = chance.choice(options)
    if one.resource.plural == "customresourcedefinitions":  # goes in the background, sooner or later
        chosen = {"dryRun": ["All"]}
    history.request("DELETE", one.path, chosen)


def _delete_all(history: History, one: Named) -> None:
    if one.resource.namespaced and "deletecollection" in one.resource.verbs:
        selector = history.chance.choice(
            ("labelSelector=app%3Dweb", "fieldSelector=metadata.name%3Da", "labelSelector=app+in+(")
        )
        key, _, value = selector.partition("=")
        history.request("DELETE", one.collection, None, {key: value}, pick=["kind", "code", "message"])


def _get(history: History, one: Named) -> None:
    accept = history.chance.choice(
        (
            "",
            "",
            "",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        )
    )
    more = {"headers": {"Accept": accept}} if accept else {}
    history.request("GET", one.path, **more)


def _list(history: History, one: Named) -> None:
    chance = history.chance
    if not one.resource.namespaced:
        return history.request("GET", one.collection, None, {"fieldSelector": f"metadata.name%3D{one.name}"})
    query = chance.choice(
        (
            {},
            {"limit": "1"},
            {"limit": "1", "continue": "${continue}"},
            {
                "labelSelector": chance.choice(
                    ("app%3Dweb", "app+in+(web,db)", "!app", "app%3D%3D", "a+b", "app+notin+(web)")
                )
            },
            {
                "fieldSelector": chance.choice(
                    (
                        "metadata.name%3Da",
                        "metadata.name!%3Da",
                        "spec.nodeName%3D",
                        "status.phase%3DPending",
                        "none%3Dx",
                        "metadata.namespace%3D${run}",
                    )
                )
            },
            {
                "resourceVersion": "${start}",
                "resourceVersionMatch": chance.choice(("NotOlderThan", "Exact", "Other")),
            },
            {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan", "limit": "2"},
        )
    )
    more: dict[str, Any] = {"save": {"continue": "metadata.continue"}} if query.get("limit") else {}
    if query.get("resourceVersionMatch") == "NotOlderThan":  # any state is an answer that is new enough
        more["pick"] = ["kind", "apiVersion"]
    if chance.random() < 0.2:
        more["headers"] = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    return history.request("GET", one.collection, None, query, **more)


WAYS: Mapping[Callable[[History, Named], None], int] = {
    _create: 8,
    _update: 6,
    _merge: 7,
    _json_patch: 4,
    _apply: 6,
    _status: 6,
    _delete: 3,
    _delete_all: 1,
    _get: 2,
    _list: 2,
}


def history(objects: Objects, seed: int) -> dict[str, Any]:
    """Returns the sequence of a seed: some objects of some kinds in a namespace of its own."""
    chance = random.Random(seed)
    made = History(objects, chance)
    service_account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default"},
        "automountServiceAccountToken": False,  # the volumes of tokens have names that are drawn
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${run}"}}
    made.request("POST", "/api/v1/namespaces", namespace, save={"start": "metadata.resourceVersion"})
    made.request("POST", "/api/v1/namespaces/${run}/serviceaccounts", service_account)
    weights = [_WEIGHTS.get(resource.plural, 1) for resource, _ in objects.sound]
    chosen = chance.choices(range(len(objects.sound)), weights, k=chance.choice((1, 2, 2, 3)))
    for number, at in enumerate(chosen):
        made.held.append(_named(made, number, at))
    for one in made.held:
        _create(made, one)
    for _ in range(chance.randrange(6, 20)):
        one = chance.choice(made.held)
        way = chance.choices([*WAYS], [*WAYS.values()])[0]
        if "update" in one.resource.verbs:
            way(made, one)
        else:
            _create(made, one)
    for one in made.held:
        if "get" in one.resource.verbs:
            made.request("GET", one.path)
            if one.resource.namespaced and chance.random() < 0.2:
                query = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": "${start}"}
                made.request("GET", one.collection, None, query, watch={"timeout": 4})
    cleanup = [
        one.path for one in made.held if not one.resource.namespaced and "delete" in one.resource.verbs
    ]
    known = {f"{key}-{one.number}": "1" for one in made.held for key in ("rv", "uid")}
    return {
        "name": f"history-{seed}",
        "vars": {**known, "start": "1", "continue": "none"},
        "rv": "object",
        "ignore": [*IGNORED],
        "cleanup": [*cleanup, "/api/v1/namespaces/${run}"],
        "steps": made.steps,
    }


def _named(made: History, number: int, at: int) -> Named:
    resource, sound = made.objects.sound[at]
    body, name = copy.deepcopy(dict(sound)), "abc"[number]
    if not resource.namespaced:
        name = f"${{run}}-{name}"
    if resource.plural == "customresourcedefinitions":
        name = "things.${run}.example.com"
        body["spec"]["group"] = "${run}.example.com"
    elif resource.plural == "ipaddresses":
        name = f"10.96.{made.chance.randrange(256)}.{made.chance.randrange(256)}"
    elif resource.plural == "apiservices":
        name, body["spec"]["group"] = "v1.${run}.example.com", "${run}.example.com"
    if "name" in body["metadata"]:
        body["metadata"]["name"] = name
    return Named(resource, name, body, number, resource.plural in TRIED)
