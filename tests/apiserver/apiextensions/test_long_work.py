"""Long work leaves the event loop to others."""

import asyncio
import json
from contextlib import aclosing, contextmanager, suppress

import pytest
from server_in_process import MAPS, config_map

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.cel.allowance import AllowanceSpentError, limited_to
from kubeskew.apiserver.apiextensions.json_path import JSONPath, JSONPathError
from kubeskew.apiserver.caching import offload

GROUP = "/apis/admissionregistration.k8s.io/v1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
NUMBERS = list(range(35))
LONG = f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, x + y + z >= 0)))"  # about half a million units
RULES = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ]
    }
}


@contextmanager
def turns():
    """A list that has an item for every turn that others got on the loop."""
    found = []

    async def tick():
        while True:
            await asyncio.sleep(0.001)
            found.append(1)

    ticking = asyncio.create_task(tick())
    yield found
    ticking.cancel()


def test_allowance():
    """A thread may evaluate and compile only as much as its allowance; one without any is not limited."""
    program = cel.compile("[1, 2, 3].all(x, x > 0)", cel.environment(36, stored=True))
    value, cost = program.evaluate({})
    with limited_to(cost * 2):
        assert program.evaluate({}) == (value, cost)
        program.evaluate({})
        with pytest.raises(AllowanceSpentError):
            program.evaluate({})
    with limited_to(10), pytest.raises(AllowanceSpentError):
        cel.compile("[1, 2, 3, 4].all(x, x > 0)", cel.environment(36, stored=True))
    with pytest.raises(cel.EvaluationError, match="actual cost limit exceeded"):
        program.evaluate({}, limit=cost - 1)
    assert program.evaluate({}) == (value, cost)


async def test_policies(api):
    """An expression that takes long is evaluated next to other requests, and can ask the authorizer there."""
    expression = f"{LONG} && authorizer.group('').resource('pods').check('get').allowed()"
    await api.post(
        f"{GROUP}/validatingadmissionpolicies",
        {"metadata": {"name": "p"}, "spec": {**RULES, "validations": [{"expression": expression}]}},
    )
    spec = {"policyName": "p", "validationActions": ["Deny"]}
    await api.post(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": spec})
    with turns() as had:
        made = await api.post(MAPS, config_map("a"))
    assert made.status == 201, made.body
    assert len(had) > 2


async def test_rules_of_definitions(api):
    """The rules of a custom resource are priced in turns, before they are stored."""
    items = {"type": "array", "maxItems": 50, "items": {"type": "integer"}}
    rule = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))"
    items["x-kubernetes-validations"] = [{"rule": rule}]
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"list": items}}}
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await api.post(definitions, {"metadata": {"name": "foos.example.com"}, "spec": spec})
    assert made.status == 201, made.body
    async with asyncio.timeout(30), aclosing(api.watch(f"{definitions}?watch=1")) as events:
        async for _, event in events:
            if any(
                condition["type"] == "Established" for condition in event["status"].get("conditions") or ()
            ):
                break
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "list": NUMBERS}
    for name in ("a", "b"):
        with turns() as had:
            made = await api.post("/apis/example.com/v1/foos", {**foo, "metadata": {"name": name}})
        assert made.status == 201, made.body
        assert len(had) > 2


async def test_selectors_of_devices(api):
    """Dozens of selectors are compiled next to other requests, though a claim with them is not long."""

    def request(number):
        selectors = [{"cel": {"expression": f"device.driver == 'd-{number}-{n}'"}} for n in range(32)]
        return {"name": f"r-{number}", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}

    spec = {"devices": {"requests": [request(number) for number in range(16)]}}
    with turns() as had:
        made = await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    assert made.status == 201, made.body
    assert len(had) > 2


async def test_selectors_over_many_objects(api, monkeypatch):
    """Holding objects against thousands of conditions is done in turns, and gives the same page."""
    monkeypatch.setattr(offload, "_TURN_SECONDS", 0.0005)  # however fast the machine
    for n in range(60):
        await api.post(MAPS, config_map(f"m-{n:02}", labels={"a": str(n % 2)}))
    terms = ",".join(f"a!=v{n}" for n in range(4_000))
    target = f"{MAPS}?labelSelector={terms},a%3D1"
    with turns() as had:
        page = await api.get(f"{target}&limit=10")
        rest = await api.get(f"{target}&limit=100&continue={page.body['metadata']['continue']}")
    assert [obj["metadata"]["name"] for obj in page.body["items"]] == [f"m-{n:02}" for n in range(1, 21, 2)]
    assert len(rest.body["items"]) == 20
    assert had


async def test_an_error_of_many_causes(api):
    """An error of very many causes is reported whole, and in turns."""
    wrong = {f"k {n}": "1" for n in range(3_000)}
    response = await api.raw("POST", MAPS, config_map("a", data=wrong))
    assert response.status == 422
    pieces = [piece async for piece in response.body]
    assert len(pieces) > 3
    body = json.loads(b"".join(pieces))
    assert len(body["details"]["causes"]) == 3_000
    assert (body["reason"], body["details"]["name"], body["code"]) == ("Invalid", "a", 422)


LENGTH = 50_000


@pytest.mark.parametrize(
    "text",
    [f"[{'a,' * LENGTH}]", f"[?({'==' * LENGTH}]", f"[?({' ' * LENGTH})]", "." * LENGTH],
)
def test_paths_of_columns_that_are_hostile(text):
    """A path is read in one go, however long, and whether it is one or not."""
    with suppress(JSONPathError):
        JSONPath(text)


def test_paths_that_find_the_same_again_and_again():
    """The number of values that repeated `..` in a JSONPath can find is bounded."""
    deep = {}
    for _ in range(100):
        deep = {"a": deep}
    assert len(JSONPath("..a" * 9).values(deep)) <= 10_000
    assert JSONPath("[?(@.a == 'x,y')].b").values([{"a": "x,y", "b": 1}, {"a": "z", "b": 2}]) == [1]
    assert JSONPath("['a','b']").values({"a": 1, "b": 2}) == [1, 2]
