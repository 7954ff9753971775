"""Seeded sequences of requests that reach a store in all the ways that an API server has."""

import random
from collections.abc import Callable, Mapping
from typing import Any

Step = dict[str, Any]

MAPS = "/api/v1/namespaces/${run}/configmaps"
_NAMES = ("a", "b", "c", "d")
_PATCHES = {
    "application/merge-patch+json": {"data": {"patched": "merge"}},
    "application/strategic-merge-patch+json": {"metadata": {"labels": {"tier": "front"}}},
    "application/json-patch+json": [{"op": "add", "path": "/metadata/annotations", "value": {"by": "json"}}],
}


def config_map(name: str, chance: random.Random, **metadata: Any) -> dict[str, Any]:
    labels = {"app": chance.choice(("web", "db"))}
    data = {"value": str(chance.randrange(3)), "text": "x" * chance.randrange(400)}
    about = {"name": name, "labels": labels, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


def _request(method: str, path: str, body: Any = None, **more: Any) -> Step:
    return {"method": method, "path": path, **({} if body is None else {"body": body}), **more}


def _create(name: str, chance: random.Random) -> Step:
    finalizers = {"finalizers": ["example.com/kept"]} if chance.random() < 0.2 else {}
    save = {f"first-{name}": "metadata.resourceVersion", f"rv-{name}": "metadata.resourceVersion"}
    return _request("POST", MAPS, config_map(name, chance, **finalizers), save=save)


def _generate(_name: str, chance: random.Random) -> Step:
    body = config_map("", chance, generateName="made-")
    del body["metadata"]["name"]
    return _request("POST", MAPS, body)


def _update(name: str, chance: random.Random) -> Step:
    version = chance.choice((f"${{rv-{name}}}", f"${{rv-{name}}}", f"${{first-{name}}}", ""))
    body = config_map(name, chance, resourceVersion=version)
    return _request("PUT", f"{MAPS}/{name}", body, save={f"rv-{name}": "metadata.resourceVersion"})


def _patch(name: str, chance: random.Random) -> Step:
    kind = chance.choice([*_PATCHES])
    save = {f"rv-{name}": "metadata.resourceVersion"}
    return _request("PATCH", f"{MAPS}/{name}", _PATCHES[kind], headers={"Content-Type": kind}, save=save)


def _release(name: str, _chance: random.Random) -> Step:
    headers = {"Content-Type": "application/merge-patch+json"}
    return _request("PATCH", f"{MAPS}/{name}", {"metadata": {"finalizers": None}}, headers=headers)


def _apply(name: str, chance: random.Random) -> Step:
    query = f"fieldManager={chance.choice(('one', 'two'))}{chance.choice(('', '&force=true'))}"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    return _request("PATCH", f"{MAPS}/{name}?{query}", config_map(name, chance), headers=headers)


def _delete(name: str, chance: random.Random) -> Step:
    options: list[dict[str, Any]] = [
        {},
        {"gracePeriodSeconds": 0},
        {"propagationPolicy": chance.choice(("Foreground", "Background", "Orphan"))},
        {"preconditions": {"resourceVersion": f"${{rv-{name}}}"}},
        {"preconditions": {"resourceVersion": f"${{first-{name}}}"}},
        {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}},
    ]
    return _request("DELETE", f"{MAPS}/{name}", chance.choice(options))


def _delete_all(_name: str, chance: random.Random) -> Step:
    query = chance.choice(
        ("labelSelector=app%3Ddb", "labelSelector=app%3Dweb", "fieldSelector=metadata.name%3Da")
    )
    # Deletions run side by side, so the order of what is answered is none.
    return _request("DELETE", f"{MAPS}?{query}", pick=["kind", "items.*.metadata.nothing"])


def _get(name: str, chance: random.Random) -> Step:
    return _request("GET", f"{MAPS}/{name}{chance.choice(('', '?resourceVersion=0'))}")


def _list(name: str, chance: random.Random) -> Step:
    queries = (
        "",
        "?limit=2",
        "?labelSelector=app+in+(web)",
        "?labelSelector=app%21%3Dweb&limit=1",
        "?fieldSelector=metadata.name%3Db",
        "?limit=0&resourceVersion=${rv-NAME}&resourceVersionMatch=NotOlderThan",
        "?resourceVersion=${rv-NAME}&resourceVersionMatch=Exact",
        "?limit=2&resourceVersion=${first-NAME}&resourceVersionMatch=Exact",
        "?resourceVersionMatch=Exact",
        "?resourceVersion=0&resourceVersionMatch=Exact",
        "?limit=2&continue=${continue}",
        "?limit=2&continue=nonsense",
        "?limit=1&continue=${continue}&resourceVersion=${rv-NAME}",
    )
    query = chance.choice(queries).replace("NAME", name)
    save = {"continue": "metadata.continue"} if "limit=2" in query else {}
    return _request("GET", MAPS + query, save=save)


def _watch(name: str, chance: random.Random) -> Step:
    selector = chance.choice(("", "", "&labelSelector=app%3Dweb", "&fieldSelector=metadata.name%3Da"))
    query = f"?watch=true&timeoutSeconds=1&resourceVersion=${{first-{name}}}{selector}"
    return _request("GET", MAPS + query, watch={"timeout": 3})


def _race(name: str, chance: random.Random) -> Step:
    # All are equal, so that what comes after does not depend on the one that wins.
    body = config_map(name, chance, resourceVersion=f"${{rv-{name}}}")
    return {"together": [_request("PUT", f"{MAPS}/{name}", body) for _ in range(4)]}


_WAYS: Mapping[Callable[[str, random.Random], Step], int] = {
    _create: 6,
    _update: 6,
    _patch: 4,
    _apply: 4,
    _delete: 4,
    _release: 2,
    _get: 3,
    _list: 6,
    _watch: 1,
    _race: 1,
    _generate: 1,
    _delete_all: 1,
}


def mix(seed: int, length: int = 40) -> dict[str, Any]:
    """A sequence on the config maps of a namespace of its own."""
    chance = random.Random(seed)
    ways = chance.choices([*_WAYS], [*_WAYS.values()], k=length)
    # Some names that lists and preconditions need are there before anything else.
    steps = [_namespace(), *(_create(name, chance) for name in _NAMES[:3])]
    steps.append(_request("GET", f"{MAPS}?limit=2", save={"continue": "metadata.continue"}))
    steps += [way(chance.choice(_NAMES), chance) for way in ways]
    steps += [_request("GET", f"{MAPS}/{name}") for name in _NAMES]
    steps.append(
        _request("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=${{first-a}}", watch={})
    )
    return _sequence(f"mix-{seed}", steps)


def _namespace() -> Step:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${run}"}}
    return _request("POST", "/api/v1/namespaces", body)


def _sequence(name: str, steps: list[Step]) -> dict[str, Any]:
    known = {f"{kind}-{letter}": "1" for kind in ("rv", "first") for letter in _NAMES}
    names = {**known, "continue": "none"}
    return {"name": name, "vars": names, "rv": "object", "ignore": [], "cleanup": [], "steps": steps}


def compacted() -> dict[str, Any]:
    """Continue tokens and revisions whose state a compaction takes away."""
    chance = random.Random(1)
    steps = [_namespace(), *(_create(name, chance) for name in _NAMES)]
    page = {"continue": "metadata.continue"}
    steps += [
        _request("GET", f"{MAPS}?limit=1", save=page),
        _update("a", random.Random(3)),
        _delete("b", random.Random(8)),
        {"compact": True},
        _request("GET", f"{MAPS}?limit=1&continue=${{continue}}", save=page),
        _request("GET", f"{MAPS}?limit=1&continue=${{continue}}"),
        _request("GET", f"{MAPS}?resourceVersion=${{first-a}}&resourceVersionMatch=Exact"),
        _request("GET", f"{MAPS}?resourceVersion=1&resourceVersionMatch=Exact"),
        # The message names the newest revision that the cache has, which writes of the server itself move.
        _request(
            "GET", f"{MAPS}?resourceVersion=9999999&resourceVersionMatch=NotOlderThan", compare="reason"
        ),
        _request("GET", f"{MAPS}?resourceVersion=9999999&resourceVersionMatch=Exact"),
        _request("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=1", watch={}),
        _request("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=${{first-a}}", watch={}),
        _request("GET", f"{MAPS}?limit=3"),
    ]
    return _sequence("compacted", steps)


def listed_by_watch() -> dict[str, Any]:
    """Watches that begin with the state, with the bookmark at its end."""
    steps = [_namespace(), *(_create(name, random.Random(5)) for name in _NAMES)]
    rest = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    for more, events in (("", 5), ("&resourceVersion=0", 0), ("&labelSelector=app%3Dnone", 1)):
        watch = {"bookmarks": True, "timeout": 4} | ({"events": events} if events else {"bookmarks": False})
        steps.append(_request("GET", f"{MAPS}?watch=true&timeoutSeconds=3&{rest}{more}", watch=watch))
    steps.append(_request("GET", f"{MAPS}?watch=true&sendInitialEvents=true&timeoutSeconds=1", watch={}))
    return _sequence("listed-by-watch", steps)


def expiring() -> dict[str, Any]:
    """Events, which go by themselves; leases, which stay; the endpoints of API servers."""
    about = {"name": "old", "namespace": "${run}"}
    body = {"metadata": about, "involvedObject": {"namespace": "${run}"}, "reason": "Test", "message": "m"}
    events = "/api/v1/namespaces/${run}/events"
    lease = {"metadata": {"name": "held"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 1}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/${run}/leases"
    addresses = "subsets.*.addresses.*.ip"
    steps = [
        _namespace(),
        _request("POST", events, body, save={"first-a": "metadata.resourceVersion"}),
        _request("POST", leases, lease),
        _request("GET", f"{events}/old", until={"http": 404}, within=30),
        _request("GET", f"{events}?watch=true&timeoutSeconds=1&resourceVersion=${{first-a}}", watch={}),
        _request("GET", f"{leases}/held"),
        _request("GET", "/api/v1/namespaces/default/endpoints/kubernetes", pick=[addresses]),
    ]
    return _sequence("expiring", steps)
