"""MutatingAdmissionPolicies in the way of a write."""

import pytest
from server_in_process import MAPS, config_map

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"]}
PODS = "/api/v1/namespaces/default/pods"


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def bind(call, name, *mutations, resources=("configmaps",), **spec):
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    constraints = {"resourceRules": [{**RULE, "resources": list(resources)}]}
    spec = {"matchConstraints": constraints, "reinvocationPolicy": "Never", **spec}
    spec["mutations"] = list(mutations)
    made = {**body, "kind": "MutatingAdmissionPolicy", "spec": spec}
    answer = await call.post(f"{GROUP}/mutatingadmissionpolicies", made)
    assert answer.status == 201, answer.body
    bound = {**body, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}}
    answer = await call.post(f"{GROUP}/mutatingadmissionpolicybindings", bound)
    assert answer.status == 201, answer.body


def apply(expression):
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def json_patch(expression):
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def pod():
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


async def test_apply_configuration(call):
    """The fields of an apply configuration are merged into the object, lists with keys by their keys."""
    await bind(
        call,
        "p",
        apply(
            "Object{metadata: Object.metadata{labels: {'by': request.userInfo.username}}, "
            "spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'x'}]}}"
        ),
        resources=("pods",),
    )
    answer = await call.post(PODS, pod())
    assert answer.status == 201, answer.body
    assert answer.body["metadata"]["labels"] == {"by": "admin"}
    assert [container["name"] for container in answer.body["spec"]["containers"]] == ["c", "side"]


async def test_json_patch(call):
    """Operations are applied in order; keys may be escaped."""
    await bind(
        call,
        "p",
        json_patch(
            "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a/b': 'c'}}, "
            "JSONPatch{op: 'replace', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'd'}]"
        ),
    )
    answer = await call.post(MAPS, config_map("one"))
    assert answer.status == 201, answer.body
    assert answer.body["metadata"]["labels"] == {"a/b": "d"}


@pytest.mark.parametrize(
    ("operation", "status", "message"),
    [
        (
            "op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'x', imag: 'y'}",
            500,
            'Internal error occurred: strict decoding error: unknown field "spec.containers[1].imag"',
        ),
        (
            "op: 'add', path: '/spec/priority', value: 'x'",
            500,
            (
                "Internal error occurred: json: cannot unmarshal string into Go struct field "
                "PodSpec.spec.priority of type int32"
            ),
        ),
        (
            "op: 'add', path: '/spec/priority', value: quantity('1')",
            403,
            (
                "policy 'p' with binding 'p' denied request: JSONPath valueExpression evaluated to a type "
                "that could not marshal to JSON: type conversion error from 'Quantity' to '*structpb.Value'"
            ),
        ),
        (
            "op: 'add', path: '/spec/containers/0', value: Object.spec.containers{ports: [Object.ports{}]}",
            403,
            (
                "policy 'p' with binding 'p' denied request: type mismatch: unexpected type name "
                '"Object.ports", expected "Object.spec.containers.ports", which matches field name path from '
                "root Object type"
            ),
        ),
    ],
)
async def test_patches_that_do_not_fit(call, operation, status, message):
    """The result of a patch is decoded strictly, and an error names the place of the value that it added."""
    await bind(call, "p", json_patch(f"[JSONPatch{{{operation}}}]"), resources=("pods",))
    answer = await call.post(PODS, pod())
    assert (answer.status, answer.body["message"]) == (status, message)


async def test_repeated_items(call):
    """An object may repeat items of a list with keys; a configuration that names them makes them one."""
    await bind(call, "p", apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"), resources=("pods",))
    twice = pod()
    twice["spec"]["containers"][0]["env"] = [{"name": "e", "value": "1"}, {"name": "e", "value": "2"}]
    answer = await call.post(PODS, twice)
    assert answer.status == 201, answer.body
    assert answer.body["metadata"]["labels"] == {"a": "b"}
    assert answer.body["spec"]["containers"][0]["env"] == twice["spec"]["containers"][0]["env"]


async def test_order_and_reinvocation(call):
    """Policies go by name; one that wants it sees what later ones did."""
    count = "has(object.data) && 'b' in object.data ? {'seen': 'yes'} : {'a': '1'}"
    await bind(call, "a", apply(f"Object{{data: {count}}}"), reinvocationPolicy="IfNeeded")
    await bind(call, "b", apply("Object{data: {'b': object.data['a']}}"))
    answer = await call.post(MAPS, config_map("one"))
    assert answer.body["data"] == {"a": "1", "b": "1", "seen": "yes"}


async def test_errors(call):
    """A mutation that fails refuses the request, with every error as a cause."""
    await bind(call, "p", apply("Object{data: {'x': object.data.missing}}"))
    answer = await call.post(MAPS, config_map("one"))
    assert (answer.status, answer.body["reason"]) == (403, "Invalid")
    text = (
        "policy 'p' with binding 'p' denied request: expression 'Object{data: {'x': object.data.missing}}' "
    )
    assert answer.body["message"] == f"{text}resulted in error: no such key: data"
    assert answer.body["details"]["causes"] == [{"message": answer.body["message"]}]


async def test_atomic_parts(call):
    """Part of what can only be replaced whole is not mutated by an apply configuration."""
    expression = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['x']}]}}"
    await bind(call, "p", apply(expression), resources=("pods",))
    message = (await call.post(PODS, pod())).body["message"]
    why = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs"
    assert message.endswith(f"error applying patch: {why}: .spec.containers[0].command")


async def test_fields_that_there_are_not(call):
    """A configuration is held against the kind's schema before anything else."""
    await bind(call, "p", apply("Object{metadata: Object.metadata{label: {'a': 'b'}}}"))
    message = (await call.post(MAPS, config_map("one"))).body["message"]
    why = "failed to convert patch object to typed object: .metadata.label: field not declared in schema"
    assert message.endswith(f"denied request: error applying patch: {why}")


async def test_conditions_and_reinvocation(call):
    """A policy that wants it is applied again if any was applied, itself included; one left out is not."""
    adds = "[JSONPatch{op: 'add', path: '/data/' + (has(object.data.x) ? 'y' : 'x'), value: ''}]"
    await bind(call, "a", json_patch(adds), reinvocationPolicy="IfNeeded")
    when = [{"name": "x", "expression": "has(object.data) && 'y' in object.data"}]
    left_out = json_patch("[JSONPatch{op: 'add', path: '/data/z', value: ''}]")
    await bind(call, "b", left_out, reinvocationPolicy="IfNeeded", matchConditions=when)
    answer = await call.post(MAPS, config_map("one", data={"k": ""}))
    assert sorted(answer.body["data"]) == ["k", "x", "y"]


async def test_rules(call):
    """A policy only mutates what is created or updated; what does not compile is reported."""
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy"}
    constraints = {"resourceRules": [{**RULE, "operations": ["DELETE"], "resources": ["pods"]}]}
    mutations = [apply(" 1 "), {"patchType": "JSONPatch"}, json_patch(" ")]
    spec = {"matchConstraints": constraints, "mutations": mutations}
    made = {**body, "metadata": {"name": "p"}, "spec": spec}
    answer = await call.post(f"{GROUP}/mutatingadmissionpolicies", made)
    causes = [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]]
    assert causes[0] == (
        'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported '
        'values: "*", "CONNECT", "CREATE", "UPDATE"'
    )
    field = "spec.mutations[0].applyConfiguration.expression"
    assert causes[1] == f'{field}: Invalid value: "1": must evaluate to Object but got int'
    text = "must be specified when patchType is JSONPatch"
    assert causes[2] == f"spec.mutations[1].jsonPatch: Required value: {text}"
    assert causes[3] == "spec.mutations[2].jsonPatch.expression: Required value"
    assert causes[4] == "spec.reinvocationPolicy: Required value"
