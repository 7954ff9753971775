"""Serves the API of the metrics server over TLS: discovery, NodeMetrics, PodMetrics, health.

Source: metrics-server, pkg/api/{node,pod}.go and pkg/server/server.go; k8s.io/apiserver for the rest.
"""

import logging
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import unquote

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.reviews import FAILURES, Requester
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object, object_key
from kubeskew.apimachinery.process.listeners import WebListener
from kubeskew.metricsserver import api
from kubeskew.metricsserver.access import Access
from kubeskew.metricsserver.api import (
    API_VERSION,
    GROUP,
    NODES,
    PODS,
    Asked,
    Shape,
    asked_for,
    chosen_by,
    shape_of,
)
from kubeskew.metricsserver.storage import Storage

log = logging.getLogger(__name__)

Checks = Callable[[], Mapping[str, bool]]
_DOCUMENTS = {
    "/apis": api.group_list,
    f"/apis/{GROUP}": api.group_document,
    f"/apis/{API_VERSION}": api.resource_list,
}
_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class Answers:
    """Answers requests that are allowed. `pods` has pods that run; `checks` are those of each path of
    health."""

    def __init__(
        self,
        storage: Storage,
        nodes: Informer,
        pods: Informer,
        clock: Clock,
        checks: Mapping[str, Checks],
        registry: CollectorRegistry,
    ) -> None:
        self._storage = storage
        self._sources = {NODES: nodes, PODS: pods}
        self._clock = clock
        self._checks = checks
        self._registry = registry

    def answer(self, request: web.BaseRequest, path: str, asked: Asked | None) -> web.Response:
        """Raises StatusError."""
        if asked is not None:
            return self._resource(request, asked)
        if request.method not in {"GET", "HEAD"}:
            raise errors.unknown_method() if path in _DOCUMENTS else errors.unknown_path()
        if path in _DOCUMENTS:
            return _json(_DOCUMENTS[path]())
        if path in self._checks:
            status, text = api.health_text(path, self._checks[path]())
            return web.Response(status=status, text=text)
        if path == "/metrics":
            page = generate_latest(self._registry)
            return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})
        raise errors.unknown_path()

    def _resource(self, request: web.BaseRequest, asked: Asked) -> web.Response:
        if request.method not in {"GET", "HEAD"}:
            raise errors.unknown_method()
        if request.rel_url.query.get("watch", "") in {"1", "true"}:
            raise errors.method_not_supported(GroupResource(GROUP, asked.kind.plural), "watch")
        shape = shape_of(request.headers.get("Accept", ""))
        include = request.rel_url.query.get("includeObject", "Metadata")
        if asked.name:
            return _json(_shaped(asked, [self._one(asked)], shape, include))
        return _json(_shaped(asked, self._all(asked, request.rel_url.query), shape, include))

    def _one(self, asked: Asked) -> Object:
        kind = asked.kind
        source = self._sources[kind].get(asked.namespace, asked.name)
        if source is None:
            raise errors.not_found(kind.source, asked.name)
        found = self._metrics(asked, source)
        if found is None:
            name = f"{asked.namespace}/{asked.name}" if kind.namespaced else asked.name
            raise errors.not_found(kind.metrics, name)
        return found

    def _all(self, asked: Asked, query: Mapping[str, str]) -> list[Object]:
        chosen = chosen_by(query)
        sources = self._sources[asked.kind].list(asked.namespace or None)
        wanted = sorted(filter(chosen, sources), key=object_key)
        found = (self._metrics(asked, source) for source in wanted)
        return [item for item in found if item is not None]

    def _metrics(self, asked: Asked, source: Object) -> Object | None:
        now, (namespace, name) = self._clock.now(), object_key(source)
        if asked.kind is NODES:
            of_node = self._storage.node(name)
            return api.node_metrics(source, of_node, now) if of_node is not None else None
        of_pod = self._storage.pod((namespace, name))
        return api.pod_metrics(source, of_pod, now) if of_pod is not None else None


class Listener:
    def __init__(self, answers: Answers, access: Access) -> None:
        self._answers = answers
        self._access = access
        self._listener = WebListener(self._serve)

    async def start(self, address: str, port: int, context: ssl.SSLContext) -> int:
        """Starts to listen, and returns the port. Raises OSError."""
        return await self._listener.start(address, port, context)

    async def stop(self) -> None:
        await self._listener.stop()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = unquote(request.rel_url.raw_path)
        asked = asked_for(path)
        try:
            requester = await self._access.requester(request)
            if requester is None:
                raise errors.unauthorized()
            await self._check(requester, request.method, path, asked)
            return self._answers.answer(request, path, asked)
        except StatusError as error:
            return _json(error.status(), error.code)

    async def _check(self, requester: Requester, method: str, path: str, asked: Asked | None) -> None:
        """Raises StatusError if the request is not allowed."""
        verb = _VERBS.get(method, method.lower())
        if asked is not None and verb == "get" and not asked.name:
            verb = "list"
        resource = asked.attributes() if asked is not None else {}
        try:
            if await self._access.allows(requester, verb, path, resource):
                return
        except FAILURES as error:
            log.error("authorization of %s failed: %s", requester.name, error)
            raise errors.internal(str(error)) from error
        if asked is None:
            text = f'User "{requester.name}" cannot {verb} path "{path}"'
            raise errors.forbidden(GroupResource("", ""), "", text)
        name = asked.kind.plural
        text = f'User "{requester.name}" cannot {verb} resource "{name}" in API group "{GROUP}"'
        text += f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
        raise errors.forbidden(GroupResource(GROUP, name), asked.name, text)


def _shaped(asked: Asked, items: list[Object], shape: Shape, include: str) -> Object:
    kind = asked.kind
    if shape.kind == "Table":
        return api.table_of(kind, items, shape.version, include)
    if shape.kind:
        if asked.name:
            return api.metadata_only(items[0], shape.version)
        return api.metadata_list(items, shape.version)
    return api.single_object(kind, items[0]) if asked.name else api.object_list(kind, items)


def _json(document: Object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document) + b"\n", status=status, content_type="application/json")
