"""Discovery: groups, versions and resources, one by one or all in one document.

Source: k8s.io/apiserver/pkg/endpoints/discovery, 1.36.
"""

import hashlib
import re

from apimachinery import discovery
from apiserver import rendering
from apiserver.encoding import dumps
from apiserver.media_types import Accepted
from apiserver.request import Request, Response
from apiserver.services import Services

_AGGREGATED = re.compile(
    r"application/json;\s*g=apidiscovery\.k8s\.io;\s*v=(v2|v2beta1);\s*as=APIGroupDiscoveryList"
)
_AGGREGATED_SINCE = 26  # beta; v2 since 1.30


class Discovery:
    """Answers at `/api`, `/apis` and below; documents follow the resource table as it is."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def serve(self, request: Request) -> Response | None:
        """The document at a path, None if there is none."""
        table = self._services.table
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["api"]:
                return self._root(request, legacy=True)
            case ["apis"]:
                return self._root(request, legacy=False)
            case ["api", version]:
                group = ""
            case ["apis", group]:
                found = discovery.group(table, group)
                return self._document(request, found) if found else None
            case ["apis", group, version]:
                pass
            case _:
                return None
        if version not in dict(table.groups()).get(group, ()):
            return None
        return self._document(request, discovery.resource_list(table, group, version))

    def _root(self, request: Request, *, legacy: bool) -> Response:
        version = self._aggregated_version(request.headers.get("accept", ""))
        if not version:
            table = self._services.table
            document = discovery.api_versions(table) if legacy else discovery.group_list(table)
            return self._document(request, document)
        beta = version == "v2beta1"
        body = dumps(discovery.aggregated(self._services.table, legacy=legacy, beta=beta))
        tag = hashlib.sha512(body).hexdigest().upper()
        kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        headers = [("Etag", f'"{tag}"'), ("Vary", "Accept")]
        if request.headers.get("if-none-match", "").strip('"') == tag:
            return Response(304, b"", kind, headers)
        return Response(200, body, kind, headers)

    def _aggregated_version(self, accept: str) -> str:
        """The version of the aggregated document that the client asks for first and this release speaks."""
        minor = self._services.world.version.minor
        for found in _AGGREGATED.finditer(accept):
            if (found[1] == "v2beta1" and minor >= _AGGREGATED_SINCE) or (found[1] == "v2" and minor >= 30):
                return found[1]
        return ""

    def _document(self, request: Request, document: dict[str, object]) -> Response:
        form = rendering.form_of(request)
        return rendering.document(document, Accepted(form.media_type))
