"""Impersonation asks in upstream's order (filters/impersonation, 1.36) and names the first refusal."""

from collections.abc import Callable, Sequence

import pytest
from multidict import CIMultiDict

from kubeskew.apiserver.authorization import Decision, Rules
from kubeskew.apiserver.filters.impersonation import with_impersonation
from kubeskew.apiserver.http.request import Request, RequestInfo, Response, text
from kubeskew.apiserver.user import User

Allows = Callable[[RequestInfo], bool]
OWN = User("bob", "", ("system:authenticated",), {})
NODE = {"authentication.kubernetes.io/node-name": ("n1",)}
ACCOUNT = User("system:serviceaccount:a:agent", "", (), NODE)


class Recorder:
    """Allows what a function allows, and keeps what it was asked: verb, resource, name."""

    def __init__(self, allows: Allows) -> None:
        self.allows = allows
        self.asked: list[tuple[str, str, str]] = []

    def authorize(self, _user: User, info: RequestInfo) -> Decision:
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        self.asked.append((info.verb, resource, info.name))
        return Decision(self.allows(info))

    def rules(self, _user: User, _namespace: str) -> Rules:
        return Rules()


class Server:
    """Has requests pass the filter, and keeps the user that came out."""

    def __init__(self, allows: Allows, *, constrained: bool = True) -> None:
        self.authorizer = Recorder(allows)
        self.user: User | None = None
        self._filter = with_impersonation(self._served, self.authorizer, constrained=constrained)

    async def _served(self, request: Request) -> Response:
        self.user = request.user
        return text(200, "")

    async def ask(self, headers: Sequence[tuple[str, str]], own: User = OWN) -> str:
        """Returns the refusal's text; empty if the request was served."""
        request = Request.of("GET", "/api/v1/pods")
        request.headers = CIMultiDict(headers)
        request.user, request.info = own, RequestInfo(True, "", "list", "", "v1", "pods")
        response = await self._filter(request)
        assert isinstance(response.body, bytes)
        return "" if response.status == 200 else response.body.decode()


WHOLE = [
    ("impersonate-user", "eve"), ("impersonate-uid", "7"), ("impersonate-group", "g"),
    ("impersonate-extra-example.com%2Fscopes", "x"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("constrained", "order"),
    [
        (False, ["users", "groups", "userextras/example.com/scopes", "uids"]),
        (True, ["users", "uids", "groups", "userextras/example.com/scopes"]),
    ],
)
async def test_the_uid_is_asked_for_last_without_the_gate(constrained: bool, order: list[str]):
    """With gate ConstrainedImpersonation the uid comes after the name, with the old verb, too."""
    server = Server(lambda info: info.verb == "impersonate", constrained=constrained)
    assert await server.ask(WHOLE) == ""
    assert [resource for verb, resource, _ in server.authorizer.asked if verb == "impersonate"] == order
    assert server.user == User("eve", "7", ("g", "system:authenticated"), {"example.com/scopes": ("x",)})


async def test_many_groups_are_asked_for_at_once():
    """From four groups on one check of all of them is tried first, and each alone if it is refused."""
    asked = [("impersonate-user", "eve"), *(("impersonate-group", f"g{n}") for n in range(4))]
    server = Server(lambda info: info.verb != "impersonate")
    assert await server.ask(asked) == ""
    assert [name for _, resource, name in server.authorizer.asked if resource == "groups"] == ["*"]
    server = Server(lambda info: info.name != "*" and info.verb != "impersonate")
    assert await server.ask(asked) == ""
    names = [name for _, resource, name in server.authorizer.asked if resource == "groups"]
    assert names == ["*", "g0", "g1", "g2", "g3"]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (("impersonate-group", ""), "impersonating the empty string group is not allowed"),
        (("impersonate-group", "system:masters"), "impersonating the system:masters group is not allowed"),
        (("impersonate-extra-", "x"), "impersonating the empty string key in extra is not allowed"),
        (("impersonate-extra-scopes", "x"), "impersonating an invalid key in extra is not allowed"),
        (("impersonate-extra-a.b%2F%43", "x"), "impersonating a non-lowercase key in extra is not allowed"),
        (("impersonate-extra-a.b%2Fc", ""), "impersonating the empty string value in extra is not allowed"),
    ],
)
async def test_things_that_a_mode_does_not_take(header: tuple[str, str], why: str):
    """A mode refuses empty groups, masters and odd extras, whatever its verbs allow."""
    server = Server(lambda info: info.verb != "impersonate")
    assert why in await server.ask([("impersonate-user", "eve"), header])


async def test_the_mode_that_a_user_was_last_allowed_by_comes_first():
    """Its refusal is the one that is answered, while else that of the first mode is."""
    server = Server(lambda info: info.verb == "impersonate" and info.name != "mallory")
    refused = await server.ask([("impersonate-user", "mallory")])
    assert "cannot impersonate-on:user-info:list" in refused
    assert await server.ask([("impersonate-user", "eve")]) == ""
    assert "cannot impersonate resource" in await server.ask([("impersonate-user", "mallory")])


async def test_an_agent_acts_as_its_node_with_any_name():
    """A service account whose token is bound to a node asks for `*`, and gets the group of nodes."""
    server = Server(lambda info: info.verb.startswith("impersonate") and info.verb != "impersonate")
    assert await server.ask([("impersonate-user", "system:node:n1")], ACCOUNT) == ""
    assert ("impersonate:associated-node", "nodes", "*") in server.authorizer.asked
    assert server.user is not None
    assert server.user.groups == ("system:nodes", "system:authenticated")
