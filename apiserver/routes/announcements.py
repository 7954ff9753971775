"""Starts and stops of components, as they announce them, on the log's time line."""

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import micro_timestamp
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apiserver.authorization.access import component_of
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.requests.scope import read_body
from kubeskew.apiserver.routes.services import RouteServices
from kubeskew.apiserver.storage.announcements import event_of
from kubeskew.apiserver.storage.encoding import dumps, loads
from kubeskew.apiserver.user import MASTERS_GROUP, User

_MAX_BYTES = 64 * 1024  # every gate of a release set by hand takes 10 KiB


async def announce(request: Request, services: RouteServices) -> Response:
    """Puts {component, what, version, gates, detail} on the time line.

    Only an administrator, or the component itself, may.

    """
    try:
        body = loads(await read_body(request, _MAX_BYTES))
    except ValueError as error:
        raise errors.bad_request(f"the body is not JSON: {error}") from None
    event = event_of(body, services.environment.clock.now())
    _check_announcer(request.user, event.component)
    await services.log.record(event)
    return Response(201, dumps({"status": "Success"}) + b"\n")


def _check_announcer(user: User, component: str) -> None:
    if MASTERS_GROUP not in user.groups and component_of(user) != component:
        why = f'User "{user.name}" cannot announce component "{component}"'
        raise errors.forbidden(GroupResource("", ""), "", why)


async def timeline(request: Request, services: RouteServices) -> Response:
    """Serves the events after `since` (a revision), oldest first."""
    since = parameters.integer(request, "since") or 0
    events = await services.log.timeline(since)
    items = [
        {
            "revision": event.revision,
            "component": event.component,
            "what": event.what,
            "version": event.version,
            "gates": event.gates,
            "detail": event.detail,
            "time": micro_timestamp(event.time),
        }
        for event in events
    ]
    return Response(200, dumps({"items": items}) + b"\n")
