"""Requests just below the limits of size: each is answered in seconds, none in the square of its length."""

import time
from typing import Any

import pytest
from server_in_process import MAPS, Caller, config_map
from until import until

PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECONDS = 20  # the slowest takes one; what is quadratic takes minutes


def pod(count: int, value: str) -> dict[str, Any]:
    env = [{"name": f"e{i}", "value": value} for i in range(count)]
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}


async def timed(api: Caller, *request: Any, **headers: str) -> Any:
    """The answer, which must not take long."""
    begun = time.monotonic()
    answer = await api(*request, **headers)
    assert time.monotonic() - begun < SECONDS
    return answer


async def test_many_owner_references(api: Caller) -> None:
    """Equal references are found, and said once, among tens of thousands."""
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": f"n{i % 10_000}", "uid": f"u{i % 10_000}"}
        for i in range(20_000)
    ]

    answer = await timed(api, "POST", MAPS, config_map("a", ownerReferences=owners))

    assert answer.status == 201
    assert len(answer.body["metadata"]["ownerReferences"]) == 10_000
    assert "duplicate UID(s) observed: u0, u1, " in answer.warnings[0]


async def test_merge_of_long_lists(api: Caller) -> None:
    """A strategic merge finds tens of thousands of elements by their keys, and deletes them."""
    assert (await api.post(PODS, pod(5_000, "old"))).status == 201
    kind = "application/strategic-merge-patch+json"
    body = {"spec": pod(10_000, "new")["spec"]}

    merged = await timed(api, "PATCH", f"{PODS}/p", body, content_type=kind)
    gone = [{"name": f"e{i}", "$patch": "delete"} for i in range(5_000)]
    body = {"spec": {"containers": [{"name": "c", "env": gone}]}}
    deleted = await timed(api, "PATCH", f"{PODS}/p", body, content_type=kind)

    for answer in (merged, deleted):  # a pod's environment does not change
        assert answer.status == 422


async def test_copies_of_copies(api: Caller) -> None:
    """The copies that a JSON patch makes are limited as upstream limits them, to save memory."""
    await api.post(MAPS, config_map("a", data={"k": "v" * 1000}))
    patch = [{"op": "copy", "from": "/data", "path": f"/data/k{i}"} for i in range(40)]

    answer = await api.patch(f"{MAPS}/a", patch, "json")
    nested = [{"op": "copy", "from": "/data", "path": f"/data{'/x' * i}"} for i in (1, 2, 4, 8, 16, 32)]
    deep = await api.patch(f"{MAPS}/a", nested, "json")

    assert answer.status == 422
    assert answer.body["message"] == "the server rejected our request due to an error in our request"
    assert deep.status in {400, 422}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("timeout=" + "1" * 900_000, 400),
        ("timeout=" + "1h" * 400_000, 200),
        ("resourceVersion=" + "1" * 900_000, 400),
        ("labelSelector=" + "(" * 900_000, 400),
        ("labelSelector=a" + "+" * 900_000 + "b", 400),
        ("fieldSelector=metadata.name=" + "%5C" * 300_000, 200),
    ],
)
async def test_long_parameters(api: Caller, query: str, status: int) -> None:
    """Parameters as long as a head may be are read in one pass."""
    assert (await timed(api, "GET", f"{MAPS}?{query}")).status == status


@pytest.mark.parametrize("quantity", ["1" * 1_000_000 + "!", "1" * 1_000_000, "0." + "0" * 1_000_000 + "1"])
async def test_long_quantities(api: Caller, quantity: str) -> None:
    """A quantity of a million digits is none, or one that is too large; either way that is said at once."""
    body = pod(0, "")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": quantity}}

    assert (await timed(api, "POST", f"{PODS}?dryRun=All", body)).status in {201, 400, 422}


@pytest.mark.parametrize("text", ["a" * 60, "1" * 100_000, "a@" * 50_000, "a." * 50_000, '"' * 100_001])
async def test_formats_of_strings(api: Caller, text: str) -> None:
    """Formats of a schema are checked in one pass, regardless of the text."""
    names = (
        "email",
        "duration",
        "date-time",
        "date",
        "hostname",
        "uri",
        "cidr",
        "isbn",
        "byte",
        "creditcard",
    )
    spec = {name: {"type": "string", "format": name} for name in names}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names_of = {"plural": "texts", "kind": "Text"}
    crd = {"group": "x.example.com", "scope": "Cluster", "names": names_of, "versions": [version]}
    assert (
        await api.post(DEFINITIONS, {"metadata": {"name": "texts.x.example.com"}, "spec": crd})
    ).status == 201
    body = {"apiVersion": "x.example.com/v1", "kind": "Text", "metadata": {"name": "a"}}
    body["spec"] = dict.fromkeys(names, text)

    async def served():
        return (await api.get("/apis/x.example.com/v1/texts")).status != 404

    await until(served)

    answer = await timed(api, "POST", "/apis/x.example.com/v1/texts", body)

    assert answer.status == 422
    assert "spec.email in body must be of type email" in answer.body["message"]


async def test_terms_and_values_that_repeat(api: Caller) -> None:
    """Each of tens of thousands of repeated entries is refused where it is."""
    path, count = "/apis/storage.k8s.io/v1/storageclasses", 20_000
    kind = {"metadata": {"name": "a"}, "provisioner": "x"}

    empty = await timed(api, "POST", path, {**kind, "allowedTopologies": [{}] * count})
    values = [{"matchLabelExpressions": [{"key": "k", "values": [*map(str, range(count)), "0"]}]}]
    repeated = await timed(api, "POST", path, {**kind, "allowedTopologies": values})
    request = {
        "metadata": {"name": "a"},
        "spec": {"signerName": "x.io/y", "request": "", "usages": ["a"] * count},
    }
    usages = await timed(api, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", request)

    places = {cause["field"] for cause in empty.body["details"]["causes"]}
    assert places == {f"allowedTopologies[{n}].matchLabelExpressions" for n in range(count)}
    assert repeated.body["details"]["causes"][0]["field"] == (
        f"allowedTopologies[0].matchLabelExpressions[0].values[{count}]"
    )
    assert usages.status == 422
