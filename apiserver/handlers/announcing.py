"""Components tell of their start and stop, and the log keeps it on its time line."""

from apimachinery import errors
from apimachinery.clock import micro_timestamp
from apimachinery.errors import GroupResource
from apiserver import bodies, parameters
from apiserver.accounts import USER_PREFIX
from apiserver.encoding import dumps, loads
from apiserver.request import Request, Response
from apiserver.services import Services
from apiserver.storage.records import ComponentEvent
from apiserver.user import MASTERS_GROUP, User

_DRIVERS_NAMESPACE = "kube-system"
_FIELDS = ("component", "what", "version", "gates")


async def announce(request: Request, services: Services) -> Response:
    """POST {component, what, version, gates}; only masters and the cluster's own users may.

    A driver may, of itself.
    """
    try:
        body = loads(await bodies.read(request))
    except ValueError as error:
        raise errors.bad_request(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict) or not all(isinstance(body.get(name, ""), str) for name in _FIELDS):
        raise errors.bad_request(f"the body must be an object of texts: {', '.join(_FIELDS)}")
    if not _may(request.user, body.get("component", "")):
        raise errors.forbidden(GroupResource("", ""), "", f'User "{request.user.name}" cannot announce')
    if not body.get("component") or not body.get("what"):
        raise errors.bad_request("component and what must be given")
    component, what, version, gates = (body.get(name, "") for name in _FIELDS)
    now = services.world.clock.now()
    await services.log.record(ComponentEvent(0, component, what, version, gates, now))
    return Response(201, dumps({"status": "Success"}) + b"\n")


def _may(user: User, component: str) -> bool:
    """Whether a user is the administrator or part of the cluster; service accounts are drivers at most."""
    kind, _, driver = component.partition("/")
    if kind == "driver" and user.name == f"{USER_PREFIX}{_DRIVERS_NAMESPACE}:{driver}":
        return True
    own = user.name.startswith("system:") and not user.name.startswith(USER_PREFIX)
    return MASTERS_GROUP in user.groups or own


async def timeline(request: Request, services: Services) -> Response:
    """GET the events after `since` (a revision), oldest first."""
    since = parameters.integer(request, "since") or 0
    events = await services.log.timeline(since)
    items = [
        {
            "revision": one.revision,
            "component": one.component,
            "what": one.what,
            "version": one.version,
            "gates": one.gates,
            "time": micro_timestamp(one.time),
        }
        for one in events
    ]
    return Response(200, dumps({"items": items}) + b"\n")
