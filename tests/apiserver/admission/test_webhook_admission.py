"""Webhooks in the way of a write: what they are asked, and what their answers do."""

import asyncio
import json
import socket

import pytest
import pytest_asyncio
from server_in_process import MAPS, Caller, close_server, config_map, open_server
from webhook_server import BUNDLE, allow, deny, hook_server, patch

GROUP = "/apis/admissionregistration.k8s.io/v1"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def hook(tmp_path):
    async with hook_server(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.1:99999/x", "address 99999: invalid port"),
        ("https://127.0.0.1:0/x", "127.0.0.1:0: connect: connection refused"),
        ("https://:9/x", ":9: connect: connection refused"),
        (f"https://{'a' * 70}.invalid/x", f"lookup {'a' * 70}.invalid: no such host"),
        ("https://a..b/x", "lookup a..b: no such host"),
    ],
)
async def test_an_address_that_is_none(call, hook, url, why):
    """A webhook whose URL parses but cannot be dialled counts as a failing call: failurePolicy decides."""
    there = {"clientConfig": {"url": url}}
    await configure(call, "Validating", "strict", webhook(hook, **there))
    refused = await call.post(MAPS, config_map("one"))
    await call.delete(f"{GROUP}/validatingwebhookconfigurations/strict")
    await configure(call, "Validating", "lenient", webhook(hook, failurePolicy="Ignore", **there))

    assert refused.status == 500
    assert "dial tcp" in refused.body["message"]
    assert refused.body["message"].endswith(f" {why}")
    assert (await call.post(MAPS, config_map("one"))).status == 201


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://[::1/x", "missing ']' in host"),
        (":x", "missing protocol scheme"),
        ("1a:b", "first path segment in URL cannot contain colon"),
        ("https://a/%zz", 'invalid URL escape "%zz"'),
        ("https://a b/x", 'invalid character " " in host name'),
        ("https://%zz/x", 'invalid URL escape "%zz"'),
        ("https://a:9 9/x", 'invalid port ":9 9" after host'),
    ],
)
async def test_a_url_that_is_none(call, hook, url, why):
    """A webhook whose URL is none is refused when it is written, in Go's words."""
    hooks = [webhook(hook, clientConfig={"url": url})]
    body = {"metadata": {"name": "wrong"}, "webhooks": hooks}
    refused = await call.post(f"{GROUP}/validatingwebhookconfigurations", body)
    assert refused.status == 422
    said = refused.body["details"]["causes"][0]["message"]
    assert said.startswith(f'Required value: url must be a valid URL: parse "{url}": {why}; desired format')


@pytest.mark.parametrize(
    "response",
    [
        {"warnings": "no list"},
        {"warnings": [1]},
        {"auditAnnotations": []},
        {"auditAnnotations": {"a": 1}},
        {"allowed": "yes"},
        {"allowed": False, "status": "no"},
        {"allowed": False, "status": {"code": "x"}},
        {"uid": 1},
        {"patch": {}},
    ],
)
@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
async def test_an_answer_of_wrong_types(call, hook, kind, response):
    """A webhook's answer that Go could not decode counts as a failing call: failurePolicy decides."""
    hook.answer = lambda review: allow(review, **response)
    await configure(call, kind, "strict", webhook(hook))
    refused = await call.post(MAPS, config_map("one"))
    await call.delete(f"{GROUP}/{kind.lower()}webhookconfigurations/strict")
    await configure(call, kind, "lenient", webhook(hook, failurePolicy="Ignore"))

    assert refused.status == 500
    assert 'calling webhook "a.example.com": failed to call webhook: json: cannot' in refused.body["message"]
    assert (await call.post(MAPS, config_map("one"))).status == 201


def rule(*resources, groups=("",), versions=("v1",), operations=("*",), **more):
    return {
        "apiGroups": list(groups),
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": list(resources or ("configmaps",)),
        **more,
    }


def webhook(hook, name="a.example.com", **more):
    return {
        "name": name,
        "clientConfig": hook.config,
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


async def configure(call, kind, name, *webhooks):
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }
    answer = await call.post(f"{GROUP}/{kind.lower()}webhookconfigurations", body)
    assert answer.status == 201, answer.body


async def test_review_of_a_create(call, hook):
    """A validating webhook reads the request and the object as it will be stored."""
    await configure(call, "Validating", "v", webhook(hook))
    answer = await call.post(f"{MAPS}?fieldManager=me&dryRun=All", config_map("one", data={"a": "b"}))
    assert answer.status == 201
    review = hook.reviews[0]
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    request = review["request"]
    assert request.pop("uid")
    obj = request.pop("object")
    assert obj["metadata"]["uid"]
    assert obj["metadata"]["namespace"] == "default"
    assert obj["data"] == {"a": "b"}
    assert request == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "one",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "oldObject": None,
        "dryRun": True,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "dryRun": ["All"],
            "fieldManager": "me",
        },
    }


async def test_reviews_of_changes(call, hook):
    """An update shows both objects; a patch is an update, a delete has only the old object."""
    await call.post(MAPS, config_map("one"))
    await configure(call, "Validating", "v", webhook(hook))
    await call.patch(f"{MAPS}/one", {"data": {"a": "1"}})
    await call.delete(f"{MAPS}/one?propagationPolicy=Background")
    changed, deleted = (review["request"] for review in hook.reviews)
    assert changed["operation"] == "UPDATE"
    assert changed["object"]["data"] == {"a": "1"}
    assert "data" not in changed["oldObject"]
    assert changed["options"] == {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert deleted["operation"] == "DELETE"
    assert deleted["object"] is None
    assert deleted["oldObject"]["data"] == {"a": "1"}
    assert deleted["options"]["propagationPolicy"] == "Background"
    assert deleted["options"]["kind"] == "DeleteOptions"


async def test_denials(call, hook):
    """A refusal is reported with the webhook's name; code and reason are its own, 400 if it has none."""
    await configure(call, "Validating", "v", webhook(hook))
    hook.answer = lambda review: deny(review, message="no", code=403, reason="Forbidden")
    answer = await call.post(MAPS, config_map("one"))
    assert answer.status == 403
    assert answer.body["message"] == 'admission webhook "a.example.com" denied the request: no'
    assert answer.body["reason"] == "Forbidden"
    hook.answer = deny
    answer = await call.post(MAPS, config_map("one"))
    assert answer.status == 400
    message = 'admission webhook "a.example.com" denied the request without explanation'
    assert answer.body["message"] == message
    assert "reason" not in answer.body


async def test_warnings(call, hook):
    """Warnings of a webhook reach the client."""
    await configure(call, "Validating", "v", webhook(hook))
    hook.answer = lambda review: allow(review, warnings=["careful", "two\nlines", 'a "quote"'])
    assert (await call.post(MAPS, config_map("one"))).warnings == [
        '299 - "careful"',
        '299 - "a \\"quote\\""',
    ]


async def test_mutation(call, hook):
    """A patch changes what is stored; the next webhook sees it."""
    second = webhook(hook, "b.example.com")
    await configure(call, "Mutating", "m", webhook(hook), second)

    def answer(review):
        data = review["request"]["object"].get("data") or {}
        if data:
            return allow(review)
        return patch(review, {"op": "add", "path": "/data", "value": {"added": "yes"}})

    hook.answer = answer
    created = await call.post(MAPS, config_map("one"))
    assert created.body["data"] == {"added": "yes"}
    assert hook.reviews[1]["request"]["object"]["data"] == {"added": "yes"}
    assert len(hook.reviews) == 2


async def test_reinvocation(call, hook):
    """A webhook that wants it is asked again when a later one changed the object."""
    first = webhook(hook, "a.example.com", reinvocationPolicy="IfNeeded")
    await configure(call, "Mutating", "m", first, webhook(hook, "b.example.com"))
    seen = []

    def answer(review):
        seen.append(sorted(review["request"]["object"].get("data") or {}))
        if len(seen) == 2:
            return patch(review, {"op": "add", "path": "/data", "value": {"late": "1"}})
        return allow(review)

    hook.answer = answer
    await call.post(MAPS, config_map("one"))
    assert seen == [[], [], ["late"]]


async def test_failures(call, hook):
    """A webhook that cannot be reached fails the request with 500, or is overlooked."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        broken = {"url": f"https://127.0.0.1:{port}/x", "caBundle": BUNDLE}
        await configure(call, "Validating", "v", webhook(hook, clientConfig=broken, failurePolicy="Fail"))
        answer = await call.post(MAPS, config_map("one"))
    assert answer.status == 500
    assert answer.body["reason"] == "InternalError"
    why = (
        'failed calling webhook "a.example.com": failed to call webhook: '
        f'Post "https://127.0.0.1:{port}/x?timeout=10s": dial tcp 127.0.0.1:{port}: '
        "connect: connection refused"
    )
    assert answer.body["message"] == f"Internal error occurred: {why}"
    assert answer.body["details"] == {"causes": [{"message": why}]}
    operations = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await call.patch(f"{GROUP}/validatingwebhookconfigurations/v", operations, "json")
    assert (await call.post(MAPS, config_map("one"))).status == 201


async def test_answers_that_are_not_believed(call, hook):
    """An answer to another question, or none, is a failing call."""
    await configure(call, "Mutating", "m", webhook(hook))

    async def said(answer):
        hook.answer = answer
        message = (await call.post(MAPS, config_map("one"))).body["message"]
        prefix = 'Internal error occurred: failed calling webhook "a.example.com": '
        assert message.startswith(prefix), message
        return message.removeprefix(prefix)

    invalid = "received invalid webhook response: "
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    other = {**kind, "response": {"uid": "x", "allowed": True}}
    assert (await said(lambda review: other)).startswith(f'{invalid}expected response.uid="')
    assert await said(lambda review: kind) == f"{invalid}webhook response was absent"
    assert await said(lambda review: {**allow(review), "kind": None}) == (
        f"{invalid}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, "
        "got admission.k8s.io/v1, Kind="
    )
    older = {"apiVersion": "admission.k8s.io/v1beta1"}
    assert await said(lambda review: {**allow(review), **older}) == (
        "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): "
        "unknown conversion"
    )
    assert await said(lambda review: {**allow(review), "kind": "Foo"}) == (
        'failed to call webhook: no kind "Foo" is registered for version "admission.k8s.io/v1" in scheme '
        '"k8s.io/apiserver/pkg/util/webhook/client.go:71"'
    )
    no_type = f"{invalid}webhook returned response.patch but not response.patchType"
    assert await said(lambda review: allow(review, patch="W10=")) == no_type


async def test_bad_patch(call, hook):
    """A patch that does not apply is an internal error."""
    await configure(call, "Mutating", "m", webhook(hook))
    hook.answer = lambda review: patch(review, {"op": "remove", "path": "/nothing"})
    answer = await call.post(MAPS, config_map("one"))
    assert answer.status == 500
    assert answer.body["message"].startswith("Internal error occurred: ")


async def test_dry_run_with_side_effects(call, hook):
    """A webhook with side effects is not asked in a dry run: the request fails."""
    hooks = webhook(hook, sideEffects="NoneOnDryRun")
    await configure(call, "Validating", "v", hooks)
    assert (await call.post(f"{MAPS}?dryRun=All", config_map("one"))).status == 201


async def test_selectors_and_rules(call, hook):
    """Namespaces, labels of the object, operations and scopes decide whether a webhook is asked."""
    await call.post("/api/v1/namespaces", {"metadata": {"name": "other"}, "kind": "Namespace"})
    in_default = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    labelled = {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}
    more = {"namespaceSelector": in_default, "objectSelector": labelled}
    await configure(call, "Validating", "v", webhook(hook, rules=[rule(operations=["CREATE"])], **more))
    await call.post(MAPS.replace("default", "other"), config_map("one"))
    await call.post(MAPS, config_map("two", labels={"skip": "1"}))
    await call.post("/api/v1/namespaces", {"metadata": {"name": "third"}, "kind": "Namespace"})
    assert hook.reviews == []
    await call.post(MAPS, config_map("three"))
    await call.delete(f"{MAPS}/three")
    assert [review["request"]["name"] for review in hook.reviews] == ["three"]


async def test_equivalent_resources(call, hook):
    """A rule for another version of the kind gets the object in that version, unless it is to be exact."""
    rules = [rule("horizontalpodautoscalers", groups=["autoscaling"], versions=["v1"])]
    await configure(call, "Validating", "v", webhook(hook, rules=rules))
    spec = {
        "maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    }
    body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    assert (await call.post(path, {**body, "spec": spec})).status == 201
    request = hook.reviews[0]["request"]
    assert request["kind"]["version"] == "v1"
    assert request["requestKind"]["version"] == "v2"
    assert request["object"]["spec"]["targetCPUUtilizationPercentage"] == 50
    exact = [{"op": "replace", "path": "/webhooks/0/matchPolicy", "value": "Exact"}]
    await call.patch(f"{GROUP}/validatingwebhookconfigurations/v", exact, "json")
    await call.delete(f"{path}/h")
    assert len(hook.reviews) == 1


async def test_validating_webhooks_run_at_once(call, hook):
    """All are asked together; the refusal that comes first is the answer."""
    await configure(
        call, "Validating", "v", webhook(hook, "slow.example.com"), webhook(hook, "fast.example.com")
    )
    both = asyncio.Event()

    async def answer(review):
        if len(hook.reviews) == 2:
            both.set()
            return deny(review, message="second")
        await both.wait()
        for _ in range(
            500
        ):  # turns of the loop that the server shares: however slow the machine, it is later
            await asyncio.sleep(0)
        return deny(review, message="first")

    hook.answer = answer
    message = (await call.post(MAPS, config_map("one"))).body["message"]
    assert message.endswith("denied the request: second")


async def test_configurations_are_exempt(call, hook):
    """A webhook for everything cannot keep anybody from removing it."""
    everything = [rule("*/*", groups=["*"], versions=["*"])]
    await configure(call, "Validating", "v", webhook(hook, rules=everything))
    hook.answer = deny
    assert (await call.delete(f"{GROUP}/validatingwebhookconfigurations/v")).status == 200
    assert json.dumps(hook.reviews) == "[]"


async def test_match_conditions(call, hook):
    """A webhook is only asked where its conditions hold; one that fails refuses, or is overlooked."""
    condition = {"name": "c", "expression": "object.metadata.name != 'skip' && request.operation == 'CREATE'"}
    await configure(call, "Validating", "v", webhook(hook, matchConditions=[condition]))
    await call.post(MAPS, config_map("skip"))
    assert hook.reviews == []
    await call.post(MAPS, config_map("one"))
    assert len(hook.reviews) == 1
    operations = [
        {"op": "replace", "path": "/webhooks/0/matchConditions/0/expression", "value": "object.data.x == 'y'"}
    ]
    await call.patch(f"{GROUP}/validatingwebhookconfigurations/v", operations, "json")
    answer = await call.post(MAPS, config_map("two"))
    assert answer.status == 403
    why = "expression 'object.data.x == 'y'' resulted in error: no such key: data"
    assert answer.body["message"] == f'configmaps "two" is forbidden: {why}'
    operations = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await call.patch(f"{GROUP}/validatingwebhookconfigurations/v", operations, "json")
    assert (await call.post(MAPS, config_map("two"))).status == 201
    assert len(hook.reviews) == 1


async def test_subresources(call, hook):
    """Scales, bindings and evictions are shown as what was posted."""
    rules = [
        rule("deployments/scale", groups=["apps"]),
        rule("pods/binding", "pods/eviction"),
    ]
    await configure(call, "Mutating", "m", webhook(hook, rules=rules))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert (await call.post(path, {**deployment, "spec": spec})).status == 201
    hook.answer = lambda review: patch(review, {"op": "replace", "path": "/spec/replicas", "value": 3})
    answer = await call.patch(f"{path}/d/scale", {"spec": {"replicas": 2}})
    assert answer.body["spec"]["replicas"] == 3
    request = hook.reviews[0]["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["subResource"], request["operation"]) == ("scale", "UPDATE")
    assert request["object"]["spec"] == {"replicas": 2}
    hook.answer = allow
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
    pods = "/api/v1/namespaces/default/pods"
    assert (await call.post(pods, pod)).status == 201
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    assert (await call.post(f"{pods}/p/binding", body)).status == 201
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await call.post(f"{pods}/p/eviction", eviction)).status == 201
    kinds = [review["request"]["kind"]["kind"] for review in hook.reviews]
    assert kinds == ["Scale", "Binding", "Eviction"]
    assert hook.reviews[1]["request"]["object"]["target"] == {"name": "n"}


async def test_deleting_many(call, hook):
    """A deletecollection asks about every object; the request itself names none."""
    for name in ("one", "two"):
        await call.post(MAPS, config_map(name))
    await configure(call, "Validating", "v", webhook(hook))
    hook.answer = lambda review: (
        deny(review, message="kept")
        if review["request"]["oldObject"]["metadata"]["name"] == "two"
        else allow(review)
    )
    answer = await call.delete(MAPS)
    assert answer.body["message"] == 'admission webhook "a.example.com" denied the request: kept'
    assert {"name" in review["request"] for review in hook.reviews} == {False}
    left = [item["metadata"]["name"] for item in (await call.get(MAPS)).body["items"]]
    assert "one" not in left
    assert "two" in left


async def test_start_under_a_webhook_that_refuses(tmp_path, hook):
    """A server starts although a webhook refuses what it writes then, as upstream does."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    server = await open_server(url=url)
    call = Caller(server)
    await configure(call, "Validating", "v", webhook(hook, rules=[rule("endpoints")]))
    hook.answer = deny
    await close_server(server)
    again = await open_server(url=url, advertise_address="127.0.0.2")
    assert hook.reviews
    await close_server(again)


async def test_older_reviews(call, hook):
    """A webhook that only knows v1beta1 is asked in it; its answer needs neither kind nor uid."""
    await configure(call, "Mutating", "m", webhook(hook, admissionReviewVersions=["v9", "v1beta1"]))

    def answer(review):
        assert review["apiVersion"] == "admission.k8s.io/v1beta1"
        patched = patch(review, {"op": "add", "path": "/data", "value": {"a": "b"}})["response"]
        return {"response": {"allowed": True, "patch": patched["patch"]}}

    hook.answer = answer
    assert (await call.post(MAPS, config_map("one"))).body["data"] == {"a": "b"}


async def test_reviews(call, hook):
    """Reviews are admitted like what is stored."""
    rules = [rule("selfsubjectaccessreviews", groups=["authorization.k8s.io"])]
    await configure(call, "Validating", "v", webhook(hook, rules=rules))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": asked}
    assert (await call.post(path, body)).body["status"]["allowed"] is True
    hook.answer = deny
    assert (await call.post(path, body)).status == 400
    assert hook.reviews[0]["request"]["kind"]["kind"] == "SelfSubjectAccessReview"
