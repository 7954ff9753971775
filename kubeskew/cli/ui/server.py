"""The server of a cluster's page on loopback: the page to anyone, its data and buttons to the administrator.

The page is one file, with the same styles and the same drawing as a report. The token comes in a header,
which no other site's page can make a browser send; requests must name this machine as their host, so that no
foreign name can point here.
"""

import asyncio
import base64
import functools
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aiohttp import web
from jinja2 import ChoiceLoader, Environment, PackageLoader

from kubeskew.cli.ui.actions import Actions
from kubeskew.cli.ui.answers import moment, one_object, timeline
from kubeskew.cli.ui.log_recorder import Recording
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.evidence.nodes import NodeRecords

_WAIT_SECONDS = 20.0
_HOSTS = ("127.0.0.1", "localhost", "[::1]")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@functools.cache
def _environment() -> Environment:
    loader = ChoiceLoader([PackageLoader("kubeskew.cli.ui"), PackageLoader("kubeskew.conformance")])
    return Environment(loader=loader, autoescape=True, trim_blocks=True)


def script() -> str:
    """A policy of the server names the hash of this script."""
    return "\n".join(_environment().get_template(name).render() for name in ("lanes.js", "ui.js"))


def page(title: str) -> str:
    return _environment().get_template("ui.html").render(title=title, script=script())


@dataclass(frozen=True, slots=True)
class Site:
    """`token` is the administrator's; `where` names its file."""

    recording: Recording
    records: Callable[[], NodeRecords]
    components: Callable[[], list[dict[str, Any]]]
    versions: list[str]
    actions: Actions
    token: str
    where: str
    page: str
    script: str


def application(site: Site) -> web.Application:
    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.host.rpartition(":")[0] not in _HOSTS:
            raise _refusal(web.HTTPForbidden, f"this page is on loopback only, not at {request.host!r}")
        if request.path.startswith("/api/") and not _has_token(request, site.token):
            raise _refusal(
                web.HTTPUnauthorized,
                f"this needs the administrator's token: open the address that `kubeskew ui` printed, or "
                f"paste what is in {site.where}",
            )
        return await handler(request)

    async def following(_app: web.Application) -> AsyncIterator[None]:
        task = asyncio.ensure_future(site.recording.follow())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    app = web.Application(middlewares=[guarded])
    app.cleanup_ctx.append(following)
    handlers = _Handlers(site)
    app.router.add_get("/", handlers.page)
    app.router.add_get("/api/timeline", handlers.timeline)
    app.router.add_get("/api/grown", handlers.grown)
    app.router.add_get("/api/moment", handlers.moment)
    app.router.add_get("/api/object", handlers.object)
    app.router.add_get("/api/components", handlers.components)
    app.router.add_post("/api/actions/{name}", handlers.act)
    return app


class _Handlers:
    def __init__(self, site: Site) -> None:
        self._site = site
        digest = base64.b64encode(sha256(site.script.encode()).digest()).decode()
        self._headers = {
            "Content-Security-Policy": f"default-src 'none'; script-src 'sha256-{digest}'; "
            "style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }

    async def page(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._site.page, content_type="text/html", headers=self._headers)

    async def timeline(self, _request: web.Request) -> web.Response:
        return self._answer(timeline(self._site.recording, self._site.records()))

    async def grown(self, request: web.Request) -> web.Response:
        count = await self._site.recording.grown(_number(request, "count", 0), _WAIT_SECONDS)
        return self._answer({"count": count, "newest": self._site.recording.newest})

    async def moment(self, request: web.Request) -> web.Response:
        recording = self._site.recording
        time = request.query.get("time")
        revision = recording.at_time(time) if time else _number(request, "at", recording.newest)
        return self._answer(moment(recording, revision))

    async def object(self, request: web.Request) -> web.Response:
        recording = self._site.recording
        key = (
            request.query.get("resource", ""),
            request.query.get("namespace", ""),
            request.query.get("name", ""),
        )
        against = _number(request, "against", 0) if "against" in request.query else None
        revision = _number(request, "at", recording.newest)
        found = one_object(recording, key, revision, against)
        if found is None:
            place = "/".join(filter(None, key[1:]))
            raise _refusal(web.HTTPNotFound, f"the log has no {key[0]} {place} up to revision {revision}")
        return self._answer(found)

    async def components(self, _request: web.Request) -> web.Response:
        try:
            components, problem = self._site.components(), ""
        except (UserError, ClusterError) as error:
            components, problem = [], str(error)
        return self._answer({"components": components, "versions": self._site.versions, "problem": problem})

    async def act(self, request: web.Request) -> web.Response:
        try:
            body: Any = await request.json()
        except ValueError:
            body = None
        if not isinstance(body, Mapping):
            raise _refusal(web.HTTPBadRequest, "the body is no JSON object")
        try:
            return self._answer(await self._site.actions.do(request.match_info["name"], body))
        except UserError as error:
            raise _refusal(web.HTTPBadRequest, str(error)) from error
        except ClusterError as error:
            raise _refusal(web.HTTPConflict, str(error)) from error

    def _answer(self, value: Mapping[str, Any]) -> web.Response:
        return web.json_response(value, headers={"Cache-Control": "no-store"})


def _has_token(request: web.Request, token: str) -> bool:
    given = request.headers.get("Authorization", "")
    return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    if text and not text.isdecimal():
        raise _refusal(web.HTTPBadRequest, f"{name}: {text!r} is no number")
    return int(text) if text else default


def _refusal(kind: type[web.HTTPError], text: str) -> web.HTTPError:
    return kind(text=json.dumps({"error": text}), content_type="application/json")
