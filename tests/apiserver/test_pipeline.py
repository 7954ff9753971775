"""The order of the filters, and what each of them does to a request."""

import inspect
import re

import pytest
from server_in_process import ADMIN, MAPS, Caller, close_server, config_map, open_server

from kubeskew.apimachinery import errors, field
from kubeskew.apiserver import pipeline
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Peer
from kubeskew.apiserver.http.user_agents import component_of


def test_order():
    """The filters stand in upstream's order, outermost first."""
    applied = re.findall(r"(with_\w+)\(handler", inspect.getsource(pipeline.build))

    assert applied[::-1] == [
        "with_audit_id",
        "with_panic_recovery",
        "with_request_info",
        "with_deadline",
        "with_warnings",
        "with_authentication",
        "with_audit",
        "with_impersonation",
        "with_max_in_flight",  # where priority and fairness is off
        "with_fairness",
        "with_authorization",
        "with_status_errors",  # what handlers raise
    ]


def test_old_texts_of_lengths():
    """Only errors about lengths have the words of 1.31; a user's text stays, also in the message."""
    own = "Too long: may not be more than 3 bytes, must have at most 1 item"
    problems = [
        field.invalid("spec", "must have at most 1 item", own),
        field.too_long("spec.a", 3),
        field.too_many("spec.b", 2, 1),
        field.too_many("spec.b", 2, 1),
    ]
    error = pipeline.with_old_lengths(errors.invalid(errors.GroupKind("", "A"), "x", problems))
    texts = [
        f'spec: Invalid value: "must have at most 1 item": {own}',
        "spec.a: Too long: must have at most 3 bytes",
        "spec.b: Too many: 2: must have at most 1 items",
    ]
    assert error.message == f'A "x" is invalid: [{", ".join(texts)}]'
    assert [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]] == [
        *texts,
        texts[-1],
    ]
    refused = errors.forbidden(errors.GroupResource("", "as"), "x", own)
    assert pipeline.with_old_lengths(refused).message.endswith(own)


async def test_anonymous(server):
    """Without credentials one may ask how the server is, and nothing else."""
    nobody = Caller(server, peer=None)

    assert (await nobody.get("/readyz")).raw == b"ok"
    refused = await nobody.get("/api/v1/nodes")
    assert refused.status == 403
    assert refused.body["message"] == (
        'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" '
        "at the cluster scope"
    )
    refused = await nobody.get("/apis")
    assert refused.body["message"] == 'forbidden: User "system:anonymous" cannot get path "/apis"'


async def test_wrong_token(server):
    """A token that nobody knows is 401, not anonymous."""
    answer = await Caller(server, peer=None).get("/readyz", authorization="Bearer nonsense")

    assert (answer.status, answer.body["reason"]) == (401, "Unauthorized")
    assert answer.headers["Audit-Id"]
    assert answer.headers["Cache-Control"] == "no-cache, private"


@pytest.mark.parametrize("header", ["Basic dTpw", "Bearer", "Bearer  nonsense", "Negotiate x"])
async def test_what_is_no_bearer_token(server, header):
    """Credentials of another kind are not looked at, as upstream: the request is anonymous."""
    answer = await Caller(server, peer=None).get("/api/v1/nodes", authorization=header)

    assert (answer.status, answer.headers["X-Content-Type-Options"]) == (403, "nosniff")
    assert 'User "system:anonymous"' in answer.body["message"]
    assert len(answer.warnings) == (header.count("  "))


async def test_token_file(tmp_path):
    """A line of the token file gives user, uid and groups."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,alice,1,"system:masters,other"\n\nplain,bob,2\n')
    server = await open_server(token_auth_file=str(tokens))
    try:
        caller = Caller(server, peer=None)
        for token, status in (("secret", 200), ("plain", 403)):
            answer = await caller.get("/api/v1/nodes", authorization=f"Bearer {token}")
            assert answer.status == status
        assert 'User "bob" cannot list resource "nodes"' in answer.body["message"]
    finally:
        await close_server(server)


async def test_impersonation(server):
    """A master may act as another; others may not."""
    acted = await Caller(server).get("/api/v1/nodes", impersonate_user="system:anonymous")
    assert acted.status == 403
    assert 'User "system:anonymous"' in acted.body["message"]

    refused = await Caller(server, Peer("bob", ())).get("/api/v1/nodes", impersonate_user="alice")
    assert refused.status == 403
    assert refused.body["message"] == (
        'nodes is forbidden: User "bob" cannot impersonate-on:user-info:list resource "nodes" in API '
        'group "" at the cluster scope'
    )


async def test_certificate_without_a_name(server):
    """A certificate that names nobody is none: who shows it is anonymous."""
    refused = await Caller(server, Peer("", ("system:masters",))).get("/api/v1/nodes")
    assert refused.status == 403
    assert 'User "system:anonymous" cannot list' in refused.body["message"]


async def test_old_impersonation():
    """Before 1.36 one verb covered everything; service accounts get their groups; a name there must be."""
    server = await open_server(35)
    try:
        bob, master = Caller(server, Peer("bob", ())), Caller(server)
        refused = await bob.get("/api/v1/nodes", impersonate_user="alice")
        assert refused.body["message"] == (
            'users "alice" is forbidden: User "bob" cannot impersonate resource "users" in API group "" '
            "at the cluster scope"
        )
        account = {"impersonate_user": "system:serviceaccount:default:a", "impersonate_uid": "1"}
        refused = await bob.get("/api/v1/nodes", **account)
        assert 'serviceaccounts "a" is forbidden' in refused.body["message"]
        assert 'in the namespace "default"' in refused.body["message"]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await master.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, **account)
        groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
        assert answer.body["status"]["userInfo"]["groups"] == groups
        nobody = await master.get("/version", impersonate_group="g")
        why = "requested [{Group  g    }] without impersonating a user"
        assert (nobody.status, nobody.body["message"]) == (400, why)
    finally:
        await close_server(server)


async def test_request_id(api):
    """The client's Audit-ID comes back; without one there is a new one."""
    assert (await api.get("/version", audit_id="mine")).headers["Audit-Id"] == "mine"
    assert len((await api.get("/version")).headers["Audit-Id"]) == 36
    assert (await api.get("/version", audit_id="x" * 1000)).headers["Audit-Id"] == "x" * 64


async def test_panic(api, monkeypatch):
    """An error that nobody foresaw is a 500 Status without a trace of it."""

    def explode(*args):
        raise RuntimeError("secret")

    monkeypatch.setattr(api.server.services.store, "get", explode)
    answer = await api.get(f"{MAPS}/a")

    assert answer.status == 500
    assert b"secret" not in answer.raw
    assert answer.body["kind"] == "Status"


async def test_deadline(api, monkeypatch):
    """A request that takes longer than its `timeout` is 504."""
    import asyncio

    async def hang():
        await asyncio.Event().wait()

    monkeypatch.setattr(api.server.services.store, "refresh", hang)
    answer = await api.get(f"{MAPS}?timeout=10ms")

    assert answer.status == 504
    assert answer.body["message"] == "Timeout: request did not complete within the allotted timeout"
    assert (await api.get(f"{MAPS}?timeout=soon")).status == 400


async def test_the_servers_own_deadline(api, monkeypatch):
    """Without a `timeout` the server's limit holds; a cancellation that is not its own goes through."""
    import asyncio

    async def hang():
        await asyncio.Event().wait()

    monkeypatch.setattr(pipeline, "MAX_SECONDS", 0.05)
    monkeypatch.setattr(pipeline, "_DEADLINE_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(api.server.services.store, "refresh", hang)
    others = asyncio.create_task(api.get(MAPS))
    await asyncio.sleep(0)
    others.cancel()

    assert (await api.get(MAPS)).status == 504
    assert others.cancelled()
    assert asyncio.current_task().cancelling() == 0


async def test_in_flight():
    """Beyond the limit readers are asked to come again; masters are not."""
    from kubeskew.apiserver.http.request import Request, parse_info, text
    from kubeskew.apiserver.pipeline import with_max_in_flight
    from kubeskew.apiserver.user import User

    nested = []

    async def inner(request):
        if not nested:
            nested.append(await bounded(request))
        return text(200, "ok")

    bounded = with_max_in_flight(inner, max_reads=1, max_writes=1)
    request = Request.of("GET", "/api/v1/nodes")
    request.info, request.user = parse_info("GET", "/api/v1/nodes", {}), User("bob")

    assert (await bounded(request)).status == 200
    assert nested[0].status == 429
    assert ("Retry-After", "1") in nested[0].headers


async def test_author(api):
    """A write is written down with its user, its component, both versions and its request."""
    await api.post(MAPS, config_map("a"), user_agent="kube-scheduler/v1.35.1 (linux)", audit_id="r1")

    events = await api.server.services.log.after(0, 1000)

    author = events[-1].author
    assert (author.user, author.component, author.component_version) == (
        ADMIN.common_name,
        "kube-scheduler",
        "1.35",
    )
    assert (author.server_version, author.request_id) == ("1.36", "r1")


def test_what_a_client_says_of_itself_is_bounded():
    """Names of components go into the log; a client cannot fill it with its user agent."""
    assert component_of("kube-scheduler/v1.36.4 (linux)") == ("kube-scheduler", "1.36")
    assert component_of("x" * 1000 + "/v1.36.4") == ("x" * 128, "1.36")
    assert component_of("kubelet/v1.25.0+kep3063 (linux)") == ("kubelet", "1.25+kep3063")
    assert component_of("kubelet/v1.27.3+k3s1 (linux)") == ("kubelet", "1.27")


COMPONENTS = "/kubeskew/v1/components"


@pytest.mark.parametrize(
    ("name", "groups", "component"),
    [
        ("system:kube-scheduler", (), "scheduler"),
        ("system:kube-controller-manager", (), "controller-manager"),
        ("system:kube-proxy", (), "network"),
        ("system:node:n1", ("system:nodes",), "kubelet/n1"),
        ("system:serviceaccount:kube-system:gpu.example.com", (), "driver/gpu.example.com"),
        ("system:serviceaccount:kube-system:driver-controller.d", (), "driver-controller/d"),
    ],
)
async def test_a_component_announces_itself_alone(server, name, groups, component):
    """Each component puts itself on the time line, and no other."""
    caller = Caller(server, Peer(name, groups))
    others = {"scheduler", "controller-manager", "apiserver", "kubelet/n1", "kubelet/n2", "driver/x"}
    event = {"what": "started", "version": "1.36", "gates": "A=true,B=false"}

    assert (await caller.post(COMPONENTS, {"component": component, **event})).status == 201
    for other in sorted(others - {component}):
        answer = await caller.post(COMPONENTS, {"component": other, **event})
        assert answer.status == 403, other
        assert answer.body["message"] == f'forbidden: User "{name}" cannot announce component "{other}"'


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("system:node:n1", ()),
        ("system:serviceaccount:default:scheduler", ()),
        ("system:kube-dns", ()),
        ("eve", ("system:nodes",)),
        ("scheduler", ()),
    ],
)
async def test_who_is_no_component_announces_nothing(server, name, groups):
    """A user who is no component is refused by authorization, even if something is announced; so is
    reading."""
    caller = Caller(server, Peer(name, groups))
    for answer in (await caller.post(COMPONENTS, {}), await caller.get(COMPONENTS)):
        assert answer.status == 403
        assert answer.body["message"].endswith(f'path "{COMPONENTS}"')


async def test_roles_decide_who_reads_the_time_line(server, api):
    """The group of monitoring reads by the default role, others by a binding to it, and nobody else."""
    eve, monitor = Caller(server, Peer("eve", ())), Caller(server, Peer("m", ("system:monitoring",)))
    scheduler = Caller(server, Peer("system:kube-scheduler", ()))
    assert (await api.post(COMPONENTS, {"component": "scheduler", "what": "killed"})).status == 201
    assert [item["what"] for item in (await monitor.get(COMPONENTS)).body["items"]][-1] == "killed"
    assert ((await eve.get(COMPONENTS)).status, (await scheduler.get(COMPONENTS)).status) == (403, 403)
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "kubeskew:timeline-viewer",
    }
    subjects = [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}]
    binding = {"metadata": {"name": "b"}, "roleRef": role, "subjects": subjects}
    await api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)

    assert (await eve.get(COMPONENTS)).status == 200


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("component", ""),
        ("component", "scheduler\x1b[2J"),
        ("component", "x" * 600),
        ("what", "started\nkilled"),
        ("what", "x" * 64),
        ("version", "1.36.\u202e4"),
        ("version", "9.9"),
        ("gates", "A=true\x07"),
        ("gates", "anything"),
    ],
)
async def test_an_announcement_says_what_a_component_is(api, field, text):
    """Texts that are no component, word, version or gates never come into the log, whoever sends them."""
    event = {"component": "scheduler", "what": "started", "version": "1.36", "gates": ""}
    before = (await api.get(COMPONENTS)).body
    assert (await api.post(COMPONENTS, {**event, field: text})).status == 400
    assert (await api.get(COMPONENTS)).body == before


async def test_an_announcement_is_small(api):
    """Nobody fills the log with one announcement."""
    event = {"component": "scheduler", "what": "started", "gates": "A" * 70_000 + "=true"}
    assert (await api.post(COMPONENTS, event)).status == 413


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        (f"{MAPS}/none", {}, 404),  # of the handler
        (f"{MAPS}?timeout=soon", {}, 400),  # of the deadline
        (MAPS, {"impersonate-user": "jane"}, 403),  # of the authorization of another
        (MAPS, {"impersonate-uid": "x"}, 400),  # of the impersonation itself
        (MAPS, {"authorization": "Bearer nonsense"}, 401),
    ],
)
async def test_no_filter_sees_an_error(server, monkeypatch, target, headers, status):
    """Whoever refuses a request answers it: nothing but answers goes up through the filters."""
    seen, panic = [], statuses.panic
    monkeypatch.setattr(statuses, "panic", lambda request: seen.append(request) or panic(request))
    peer = None if "authorization" in headers else ADMIN

    answer = await Caller(server, peer)(
        "GET", target, **{name.replace("-", "_"): headers[name] for name in headers}
    )

    assert answer.status == status
    assert answer.body["kind"] == "Status"
    assert not seen
