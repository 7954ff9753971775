"""Paths that are no resources: discovery, OpenAPI, OpenID, version, health, metrics, components.

Source: k8s.io/kubernetes/pkg/serviceaccount/openidmetadata.go and pkg/routes/openidmetadata.go, 1.36.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.environment import COMPONENTS_PATH
from kubeskew.apimachinery.metrics.process import build_information
from kubeskew.apiserver.apiextensions.table import Snapshot
from kubeskew.apiserver.health_checks import PROBES
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.request import Request, Response, text
from kubeskew.apiserver.routes import announcements, discovery
from kubeskew.apiserver.routes.services import RouteServices
from kubeskew.apiserver.serviceaccount.tokens import AccountKeys
from kubeskew.apiserver.storage.encoding import dumps, indented, loads

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
KEYS_TYPE = "application/jwk-set+json"
_CACHE = [("Cache-Control", "public, max-age=3600")]


def configuration(keys: AccountKeys, address: str) -> Response:
    document = {
        "issuer": keys.issuer,
        "jwks_uri": keys.keys_uri or f"https://{address}{KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys.verifying}),
    }
    return Response(200, dumps(document), "application/json", list(_CACHE))


def key_set(keys: AccountKeys) -> Response:
    document = {"keys": [key.as_jwk() for key in keys.verifying]}
    return Response(200, dumps(document), KEYS_TYPE, list(_CACHE))


_METRICS = "metrics"  # what other workers are asked
_DOCUMENTS_MAX = 500
_NO_FILES = b'<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n</pre>\n'
_TAG = re.compile(r'[\s,]*(\*|(?:W/)?"[^"\x00-\x20\x7f]*")')
_LISTED = (
    "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version",
    CONFIGURATION, KEYS,
)  # fmt: skip
# Paths of upstream's router (go-restful): by GET alone. All else takes any method, as its handlers look at
# none: health, metrics, OpenAPI, and the aggregator's documents of groups (`/apis`, `/apis/GROUP`).
_ROUTED = ("/version", "/.well-known", "/openid/v1", "/api")
_PRODUCED = {
    "/version": (media_types.JSON,),
    CONFIGURATION: (media_types.JSON,),
    KEYS: (KEYS_TYPE,),
}
PathHandler = Callable[[Request], Awaitable[Response]]
# Media types of OpenAPI below `application`, and their names in answers: older clients ask with an
# `@`, which no media type may contain (kube-openapi, 1.36).
_V2_PROTOBUF = "com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V3_PROTOBUF = "com.github.proto-openapi.spec.v3.v1.0+protobuf"
_OF_V2 = {
    "json": media_types.JSON,
    "com.github.proto-openapi.spec.v2@v1.0+protobuf": f"application/{_V2_PROTOBUF}",
    _V2_PROTOBUF: f"application/{_V2_PROTOBUF}",
}
_OF_V3 = {
    "json": media_types.JSON,
    _V3_PROTOBUF: f"application/{_V3_PROTOBUF}",
    "com.github.proto-openapi.spec.v3@v1.0+protobuf": f"application/{_V3_PROTOBUF}",
}


class Paths:
    """Serves paths; documents are built once per state of the resource table."""

    def __init__(self, services: RouteServices) -> None:
        self._services = services
        self._discovery = discovery.Discovery(services)
        self._documents: dict[str, tuple[int, bytes, str]] = {}  # the table's generation, body, ETag
        self._exact: dict[str, PathHandler] = {
            "/version": self._version,
            "/metrics": self._metrics,
            "/metrics/slis": self._slis,
            "/openapi/v2": self._openapi_v2,
            "/openapi/v3": self._openapi_v3,
            COMPONENTS_PATH: self._components,
            CONFIGURATION: self._openid_configuration,
            KEYS: self._openid_keys,
            "/": self._index,
            "/index.html": self._index,
        }

    async def serve(self, request: Request) -> Response:
        """Answers 404 to unknown paths: as text or, below the router's paths, as a Status."""
        path = request.path
        if self._is_routed(path):
            path = path.rstrip("/")  # the router ignores trailing slashes
            if not self._is_route(path):
                raise errors.unknown_path()
            if request.method != "GET":
                raise errors.unknown_method()
            media_types.check_accepted(request, _PRODUCED.get(path, media_types.ACCEPTED))
        return await self._find(request, path) or text(404, "404 page not found\n")

    def _is_route(self, path: str) -> bool:
        """`path` has no slashes at its end."""
        if path in self._exact or path == "/api":
            return True
        root, *parts = path.removeprefix("/").split("/")
        served = dict(self._services.table.groups())
        return len(parts) == (1 if root == "api" else 2) and parts[-1] in served.get("".join(parts[:-1]), ())

    def _is_routed(self, path: str) -> bool:
        if any(path == prefix or path.startswith(f"{prefix}/") for prefix in _ROUTED):
            return True
        root, group, *rest = [*path.removeprefix("/").split("/"), ""][:4]
        return root == "apis" and any(rest) and self.is_built_in(group)

    def is_built_in(self, group: str) -> bool:
        """Upstream's router has the paths of built-in groups, below `/api` or `/apis/GROUP`."""
        return group in dict(self._services.table.builtin.groups())

    async def _find(self, request: Request, path: str) -> Response | None:
        handler = self._exact.get(path)
        if handler is not None:
            return await handler(request)
        first, slash, rest = path.removeprefix("/").partition("/")
        if first in PROBES and (rest or not slash):
            return self._probe(request, first, rest)
        if first in {"api", "apis"} and not rest.startswith("/"):
            return await self._discovery.serve(request)
        if self._services.serves_logs and first == "logs":
            return _log_files(path)
        if path.startswith("/openapi/v3/"):
            name = path.removeprefix("/openapi/v3/")
            return await self._openapi_v3_document(request, name) or Response(404, b"", "")
        return None

    async def _index(self, request: Request) -> Response:
        """Lists all paths (apiserver/pkg/server/routes/index.go)."""
        paths = {*_LISTED, "/api", "/api/v1", "/apis", "/apis/"}
        for probe in PROBES:
            paths |= {f"/{probe}", *(f"/{probe}/{name}" for name in self._services.health.names(probe))}
        if self._services.serves_logs:
            paths.add("/logs")
        for group, versions in self._services.table.groups():
            if group:
                paths |= {f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)}
        return Response(200, indented({"paths": sorted(paths)}))

    def _probe(self, request: Request, probe: str, name: str) -> Response:
        health = self._services.health
        if name:
            return health.single(probe, name) or text(404, "404 page not found\n")
        return health.probe(
            probe, verbose="verbose" in request.query, exclude=request.query.get("exclude") or []
        )

    async def _version(self, request: Request) -> Response:
        return Response(200, indented(version_document(self._services)))

    async def _metrics(self, request: Request) -> Response:
        metrics, others = self._services.metrics, self._services.others
        counted = await others.ask(_METRICS) if others is not None else ()
        return Response(200, metrics.render(counted), metrics.content_type)

    async def _slis(self, request: Request) -> Response:
        """Runs the health checks for each request (component-base/metrics/prometheus/slis)."""
        lines = [
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
            "# TYPE kubernetes_healthcheck gauge",
        ]
        for name, probe, good in self._services.health.results():
            lines.append(f'kubernetes_healthcheck{{name="{name}",type="{probe}"}} {int(good)}')
        return Response(200, "\n".join([*lines, ""]).encode(), self._services.metrics.content_type)

    async def _openid_configuration(self, _request: Request) -> Response:
        return configuration(self._services.account_keys, self._services.address)

    async def _openid_keys(self, _request: Request) -> Response:
        return key_set(self._services.account_keys)

    async def _components(self, request: Request) -> Response:
        if request.method == "GET":
            return await announcements.timeline(request, self._services)
        if request.method != "POST":
            raise errors.unknown_path()
        return await announcements.announce(request, self._services)

    # --- OpenAPI -------------------------------------------------------------------------------------------

    async def _openapi_v2(self, request: Request) -> Response:
        from kubeskew.apiserver import openapi

        form = media_types.first_of(request.headers.get("accept", ""), _OF_V2)
        if form is None:
            return Response(406, b"", "", [("Vary", "Accept")])
        table, features = self._services.table.now(), self._services.features.documents
        logs = self._services.serves_logs
        body, tag = await self._kept(table, "v2", lambda: dumps(openapi.v2(table, features, logs=logs)))
        if form != media_types.JSON:
            body, _ = await self._kept(table, "v2.pb", lambda: openapi.v2_protobuf(loads(body)))
        return tagged(request, body, tag, form)

    async def _openapi_v3(self, _request: Request) -> Response:
        from kubeskew.apiserver import openapi

        table, features = self._services.table.now(), self._services.features.documents
        logs = self._services.serves_logs
        body, _ = await self._kept(table, "v3", lambda: dumps(openapi.v3_index(table, features, logs=logs)))
        return Response(200, body, "text/plain; charset=utf-8")  # which Go guesses

    async def _openapi_v3_document(self, request: Request, name: str) -> Response | None:
        from kubeskew.apiserver import openapi

        table, features = self._services.table.now(), self._services.features.documents
        logs = self._services.serves_logs
        digest = openapi.v3_hash(table, features, name, logs=logs)
        if not digest:
            return None
        group, _, served = name.partition("/")[2].rpartition("/")
        fixed = None if table.defines(group, served) else 0
        form = media_types.first_of(request.headers.get("accept", ""), _OF_V3)
        if form is None:
            return Response(406, b"", "", [("Vary", "Accept")])
        asked = request.param("hash")
        if asked and asked != digest:  # the address of an older state
            address, tag = openapi.v3_address(name, digest), f'"{digest}"'
            return Response(301, b"", form, [("Location", address), ("Etag", tag), ("Vary", "Accept")])
        body, _ = await self._kept(
            table,
            f"v3/{name}",
            lambda: dumps(openapi.v3(table, features, name, logs=logs)),
            generation=fixed,
        )
        if form != media_types.JSON:
            key, whole = f"v3.pb/{name}", body
            body, _ = await self._kept(
                table, key, lambda: openapi.v3_protobuf(loads(whole)), generation=fixed
            )
        found = tagged(request, body, f'"{digest}"', form)
        if asked:
            found.headers += [("Cache-Control", "public, immutable"), ("Expires", self._in_a_year())]
        return found

    def _in_a_year(self) -> str:
        now = self._services.environment.clock.now()
        return (now + timedelta(days=365)).strftime("%a, %d %b %Y %H:%M:%S UTC")

    async def _kept(
        self, table: Snapshot, name: str, make: Callable[[], bytes], *, generation: int | None = None
    ) -> tuple[bytes, str]:
        """Builds a document once per generation of the table; returns it with its ETag."""
        state = table.generation if generation is None else generation
        found = self._documents.get(name)
        if found is None or found[0] < state:
            body = await asyncio.to_thread(make)  # large: other requests go on meanwhile
            found = state, body, etag(body)
            if len(self._documents) >= _DOCUMENTS_MAX:  # of definitions that have gone, mostly
                self._documents.clear()
            self._documents[name] = found
        return found[1], found[2]


def _log_files(path: str) -> Response:
    """Answers as Go's http.ServeFile does for an empty directory: there are no log files."""
    if path == "/logs":
        return Response(301, b"", "", [("Location", "logs/")])
    if path != "/logs/":
        return text(404, "404 page not found\n")
    return Response(200, _NO_FILES, "text/html; charset=utf-8")


def etag(body: bytes) -> str:
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def tagged(request: Request, body: bytes, tag: str, content_type: str) -> Response:
    """Answers 304 if the client has the document already."""
    headers = [("Etag", tag), ("Vary", "Accept")]
    if _is_held(request.headers.get("if-none-match", ""), tag):
        return Response(304, b"", content_type, headers)
    return Response(200, body, content_type, headers)


def _is_held(held: str, tag: str) -> bool:
    """Reads If-None-Match as Go's http.ServeContent does."""
    position = 0
    while found := _TAG.match(held, position):
        if found[1] == "*" or found[1].removeprefix("W/") == tag:
            return True
        position = found.end()
    return False


def version_document(services: RouteServices) -> dict[str, str]:
    version = services.environment.version
    minor = str(version.minor)
    emulating = {
        "emulationMajor": "1",
        "emulationMinor": minor,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(version.minor - 1),
    }
    return {
        "major": "1",
        "minor": minor,
        **(emulating if services.features.documents.emulates else {}),
        **build_information(version),
    }
