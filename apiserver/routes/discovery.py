"""Serves discovery: groups, versions and resources, one by one or all in one document.

Source: k8s.io/apiserver/pkg/endpoints/discovery, 1.36.
"""

import hashlib

from kubeskew.apimachinery.resources import ResourceTable
from kubeskew.apiserver.aggregation.merging import MergedResourceTable, complete
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.media_types import Accepted
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.requests import rendering
from kubeskew.apiserver.routes import discovery_documents
from kubeskew.apiserver.routes.discovery_documents import Document
from kubeskew.apiserver.routes.services import RouteServices
from kubeskew.apiserver.storage.encoding import dumps

_KIND = "APIGroupDiscoveryList"


class Discovery:
    """Answers at `/api`, `/apis` and below; documents follow the resource table as it is."""

    def __init__(self, services: RouteServices) -> None:
        self._services = services
        versions = services.features.requests.aggregated_discovery
        self._aggregates = {(discovery_documents.AGGREGATED_GROUP, version, _KIND) for version in versions}

    async def serve(self, request: Request) -> Response | None:
        """Returns the document at a path below `/api` or `/apis`, None if there is none.

        A remote group version answers for itself.
        """
        table = self._table()
        match [part for part in request.path.split("/") if part]:
            case ["api"]:
                return self._root(request, legacy=True)
            case ["apis"]:
                return self._root(request, legacy=False)
            case ["apis", group] if group in dict(table.groups()):
                return self._document(request, discovery_documents.group(table, group))
            case ["api", version] if version in dict(table.groups()).get("", ()):
                return self._document(request, discovery_documents.resource_list(table, "", version))
            case ["apis", group, version] if self._is_remote(group, version):
                remote = self._services.registered.get().remotes[group, version]
                from kubeskew.apiserver.aggregation.proxying import proxy  # it brings an HTTP client

                return await proxy(self._services, remote, request)
            case ["apis", group, version] if version in dict(table.groups()).get(group, ()):
                return self._document(request, discovery_documents.resource_list(table, group, version))
            case _:
                return None

    def _table(self) -> ResourceTable:
        """Returns the table of resources that this server and others serve."""
        registered = self._services.registered.get()
        table = self._services.table.now()
        return MergedResourceTable(table, registered) if registered.remotes else table

    def _is_remote(self, group: str, version: str) -> bool:
        registered = self._services.registered.get()
        if (group, version) not in registered.remotes:
            return False
        return version not in dict(self._services.table.groups()).get(group, ())

    def _root(self, request: Request, *, legacy: bool) -> Response:
        form = media_types.negotiated(request.headers.get("accept", ""), self._aggregates)
        if form is not None and form.convert:
            return self._aggregated(request, form, legacy=legacy)
        if legacy:
            return self._document(request, discovery_documents.api_versions(self._services.address))
        return self._document(request, discovery_documents.group_list(self._table()))

    def _aggregated(self, request: Request, form: Accepted, *, legacy: bool) -> Response:
        self._services.metrics.aggregations.inc()
        beta = form.version == "v2beta1"
        document = discovery_documents.aggregated(self._table(), legacy=legacy, beta=beta)
        registered = self._services.registered.get()
        if registered.remotes:
            complete(document, registered, self._services.remote_lists)
        tag = f'"{hashlib.sha512(dumps(document)).hexdigest().upper()}"'
        if request.headers.get("if-none-match", "") == tag:
            answer = Response(304, b"")
        else:
            answer = rendering.document(document, form)
        kind = f"g={discovery_documents.AGGREGATED_GROUP};v={form.version};as={_KIND}"
        answer.content_type = f"{form.media_type};{kind}"
        answer.headers += [("Etag", tag), ("Vary", "Accept"), ("Cache-Control", "public")]
        return answer

    def _document(self, request: Request, document: Document) -> Response:
        return rendering.document(document, rendering.form_of(request, media_types.NO_CONVERSIONS))
