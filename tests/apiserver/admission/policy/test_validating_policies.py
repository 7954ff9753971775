"""ValidatingAdmissionPolicies in the way of a write."""

import asyncio

import pytest
from server_in_process import MAPS, Caller, config_map

from kubeskew.apiserver.http.request import Peer

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"]}
DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


pytestmark = pytest.mark.asyncio(loop_scope="module")


def policy(*validations, resources=("configmaps",), **spec):
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    constraints = {"resourceRules": [{**RULE, "resources": list(resources)}]}
    spec = {"matchConstraints": constraints, "validations": list(validations), **spec}
    return {**body, "metadata": {"name": "p"}, "spec": spec}


def binding(**spec):
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding"}
    spec = {"policyName": "p", "validationActions": ["Deny"], **spec}
    return {**body, "metadata": {"name": "b"}, "spec": spec}


async def bind(call, made, bound=None):
    answer = await call.post(f"{GROUP}/validatingadmissionpolicies", made)
    assert answer.status == 201, answer.body
    answer = await call.post(f"{GROUP}/validatingadmissionpolicybindings", bound or binding())
    assert answer.status == 201, answer.body


async def test_denial(call):
    """An expression that does not hold refuses with 422; the message is the expression unless given."""
    await bind(call, policy({"expression": "has(object.data) && object.data.size() < 2"}))
    assert (await call.post(MAPS, config_map("one", data={"a": "b"}))).status == 201
    answer = await call.post(MAPS, config_map("two", data={"a": "b", "c": "d"}))
    message = f"{DENIED}failed expression: has(object.data) && object.data.size() < 2"
    assert answer.status == 422
    assert answer.body["reason"] == "Invalid"
    assert answer.body["message"] == f'configmaps "two" is forbidden: {message}'
    assert answer.body["details"] == {
        "name": "two",
        "kind": "configmaps",
        "causes": [{"message": message}],
    }


async def test_messages_and_reasons(call):
    """A computed message goes before a fixed one; the reason decides the code."""
    await bind(
        call,
        policy(
            {
                "expression": "object.metadata.name != 'one'",
                "messageExpression": "'not ' + object.metadata.name + ' by ' + request.userInfo.username",
                "message": "fixed",
                "reason": "Forbidden",
            }
        ),
    )
    answer = await call.post(MAPS, config_map("one"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"].endswith(f"{DENIED}not one by admin")


async def test_errors_follow_the_failure_policy(call):
    """An expression that fails refuses, unless the policy ignores failures."""
    await bind(call, policy({"expression": "object.data.missing == 'x'"}))
    answer = await call.post(MAPS, config_map("one", data={}))
    why = "expression 'object.data.missing == 'x'' resulted in error: no such key: data"
    assert answer.body["message"].endswith(f"{DENIED}{why}")
    change = [{"op": "replace", "path": "/spec/failurePolicy", "value": "Ignore"}]
    await call.patch(f"{GROUP}/validatingadmissionpolicies/p", change, "json")
    assert (await call.post(MAPS, config_map("one", data={}))).status == 201


async def test_warnings(call):
    """With the action Warn the request goes through and a warning says why it should not."""
    await bind(call, policy({"expression": "false", "message": "no"}), binding(validationActions=["Warn"]))
    answer = await call.post(MAPS, config_map("one"))
    assert answer.status == 201
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"
    assert answer.warnings == [f'299 - "{text}"']


async def test_variables(call):
    """Variables are evaluated when read, and may name those before them."""
    variables = [
        {"name": "size", "expression": "has(object.data) ? object.data.size() : 0"},
        {"name": "small", "expression": "variables.size < 2"},
        {"name": "broken", "expression": "object.nothing"},
    ]
    made = policy(
        {"expression": "variables.small", "messageExpression": "'size is ' + string(variables.size)"},
        {"expression": "variables.small || variables.broken == 1"},
        variables=variables,
    )
    await bind(call, made)
    assert (await call.post(MAPS, config_map("one"))).status == 201
    answer = await call.post(MAPS, config_map("two", data={"a": "1", "b": "2"}))
    assert answer.body["message"].endswith(f"{DENIED}size is 2")


async def test_match_conditions(call):
    """Conditions decide before validations; the old object is null on a create."""
    conditions = [{"name": "updates", "expression": "oldObject != null"}]
    await bind(call, policy({"expression": "false"}, matchConditions=conditions))
    assert (await call.post(MAPS, config_map("one"))).status == 201
    assert (await call.patch(f"{MAPS}/one", {"data": {"a": "1"}})).status == 422


async def test_namespaces_and_authorizer(call):
    """Expressions see the namespace of the request, and may ask what its user may do."""
    await bind(
        call,
        policy(
            {"expression": "namespaceObject.metadata.name == 'default'"},
            {"expression": "authorizer.group('').resource('pods').check('create').allowed()"},
            {"expression": "authorizer.requestResource.check('delete').allowed()"},
            {"expression": "request.operation == 'CREATE' && request.namespace == 'default'"},
            {"expression": "!authorizer.serviceAccount('a', 'b').path('/x').check('get').allowed()"},
        ),
    )
    answer = await call.post(MAPS, config_map("one"))
    assert answer.status == 201, answer.body


async def test_parameters(call):
    """A binding gives its policy the objects it names or selects; none may be a reason to refuse."""
    await call.post(MAPS, config_map("limit", data={"max": "1"}, labels={"for": "p"}))
    made = policy(
        {"expression": "!has(object.data) || object.data.size() <= int(params.data.max)"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    reference = {"name": "limit", "parameterNotFoundAction": "Deny"}
    await bind(call, made, binding(paramRef=reference))
    assert (await call.post(MAPS, config_map("one", data={"a": "1"}))).status == 201
    assert (await call.post(MAPS, config_map("two", data={"a": "1", "b": "2"}))).status == 422
    path = f"{GROUP}/validatingadmissionpolicybindings/b"
    changed = binding(paramRef={**reference, "name": "other"})
    changed["metadata"] = (await call.get(path)).body["metadata"]
    assert (await call.put(path, changed)).status == 200
    answer = await call.post(MAPS, config_map("three"))
    why = "no params found for policy binding with `Deny` parameterNotFoundAction"
    assert answer.body["message"].endswith(f"{DENIED}failed to configure binding: {why}")


async def test_unknown_parameters(call):
    """A parameter kind that is not served is an error of the policy."""
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    await bind(call, policy({"expression": "params == null"}, paramKind=kind))
    answer = await call.post(MAPS, config_map("one"))
    why = "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"
    text = f"ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: {why}"
    assert answer.body["message"].endswith(text)


async def test_expressions_are_checked(call):
    """Each expression that does not compile is reported with the field that it stands in."""
    made = policy(
        {"expression": "object.x =="},
        {"expression": "1 + 1"},
        {"expression": "variables.a == 'x'"},
        variables=[{"name": "a", "expression": "1"}, {"name": "b-c", "expression": "unknown"}],
        matchConditions=[{"name": "c", "expression": "params.x == 1"}],
    )
    answer = await call.post(f"{GROUP}/validatingadmissionpolicies", made)
    causes = [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]
    assert [field for field, _ in causes] == [
        "spec.matchConditions[0].expression",
        "spec.variables[1].name",
        "spec.variables[1].expression",
        "spec.validations[0].expression",
        "spec.validations[1].expression",
        "spec.validations[2].expression",
    ]
    assert "undeclared reference to 'params' (in container '')" in causes[0][1]
    assert "Syntax error" in causes[3][1]
    assert causes[4][1] == 'Invalid value: "1 + 1": must evaluate to bool but got int'
    assert "found no matching overload for '_==_' applied to '(int, string)'" in causes[5][1]


async def test_type_checking(call):
    """The status shows where expressions do not fit the kinds that the rules name."""
    rule = {**RULE, "apiGroups": ["apps"], "resources": ["deployments"]}
    made = policy({"expression": "object.spec.replicas > 1"}, {"expression": "object.spec.replica > 1"})
    made["spec"]["matchConstraints"] = {"resourceRules": [rule]}
    await bind(call, made)
    path = f"{GROUP}/validatingadmissionpolicies?watch=1&resourceVersion=0"
    async with asyncio.timeout(30):
        async for _, obj in call.watch(path):
            if "observedGeneration" in obj.get("status", {}):
                break
    assert obj["status"]["observedGeneration"] == 1
    (warning,) = obj["status"]["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[1].expression"
    assert warning["warning"].startswith(
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'"
    )


async def test_who_may_refer_to_parameters(call):
    """A policy's user must be allowed to read what the policy reads; a binding's likewise."""
    rules = [{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]
    rbac, api = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": "policies"}}
    await call.post(f"{rbac}/clusterroles", {**role, "rules": rules})
    await call.post(
        f"{rbac}/clusterrolebindings",
        {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "policies"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": "author"}],
        },
    )
    author = Caller(call.server, Peer("author", ()))
    made = policy({"expression": "true"}, paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    answer = await author.post(f"{GROUP}/validatingadmissionpolicies", made)
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "spec.paramKind"
    assert 'must have "get" permission on all objects of the referenced paramKind' in answer.body["message"]
    assert (await call.post(f"{GROUP}/validatingadmissionpolicies", made)).status == 201
    bound = binding(paramRef={"name": "x", "namespace": "default", "parameterNotFoundAction": "Deny"})
    answer = await author.post(f"{GROUP}/validatingadmissionpolicybindings", bound)
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "spec.paramRef"
    assert (await call.post(f"{GROUP}/validatingadmissionpolicybindings", bound)).status == 201
