"""Lists the routes of what is served, by document: all that v2 and v3 tell of them in their own dialects."""

from collections.abc import Iterable, Iterator

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.resources import Resource, ResourceTable
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.custom_routes import custom_routes
from kubeskew.apiserver.openapi.definitions import kind_name, list_name
from kubeskew.apiserver.openapi.facts import facts_of
from kubeskew.apiserver.openapi.parameters import Parameters
from kubeskew.apiserver.openapi.plain_routes import group_route, logs_routes, plain_routes, version_route
from kubeskew.apiserver.openapi.resource_routes import ResourceRoutes
from kubeskew.apiserver.openapi.routes import Route, base_path


class Documents:
    """Lists the routes of a table's resources, and of what there is beside them."""

    def __init__(self, table: ResourceTable, features: DocumentFeatures, *, logs: bool) -> None:
        """Takes whether the server has `/logs`."""
        self.table = table
        self.features = features
        self.facts = facts_of(features.version)
        self.parameters = Parameters(features)
        self._plain = plain_routes() | (logs_routes(self.parameters) if logs else {})
        self._types = types_of(features.version)

    def names(self) -> Iterator[str]:
        """Yields the names of the documents of v3: `api/v1`, `apis/apps`, `version`."""
        yield from self._plain
        for group, versions in self.table.groups():
            if group and any(not self.is_custom(group, version) for version in versions):
                yield f"apis/{group}"
            yield from (base_path(group, version).removeprefix("/") for version in versions)

    def is_custom(self, group: str, version: str) -> bool:
        """Decides whether definitions make a group and version."""
        return any(resource.custom for resource in self.table.resources(group, version))

    def of(self, name: str) -> tuple[list[Route], list[Resource]] | None:
        """Returns the routes of a document and the resources they serve; None if there is none."""
        plain = self._plain.get(name)
        if plain:
            return plain, []
        root, *parts = name.split("/")
        groups = dict(self.table.groups())
        if root == "apis" and len(parts) == 1:
            shown = name in set(self.names())
            return ([group_route(parts[0])], []) if shown else None
        if (root, len(parts)) not in (("api", 1), ("apis", 2)) or parts[-1] not in groups.get(
            "".join(parts[:-1]), ()
        ):
            return None
        return self.of_version("".join(parts[:-1]), parts[-1])

    def of_version(self, group: str, version: str) -> tuple[list[Route], list[Resource]]:
        """Returns the routes of a group and version that is served, and its resources."""
        resources = list(self.table.resources(group, version))
        routes = list(self._of_resources(resources))
        if not self.is_custom(group, version):
            routes.append(version_route(group, version, self.features))
        return routes, resources

    def all(self) -> tuple[list[Route], list[Resource]]:
        """Returns the routes of all documents."""
        routes, resources = [], []
        for name in self.names():
            found = self.of(name)
            if found:
                routes += found[0]
                resources += found[1]
        return routes, resources

    def _of_resources(self, resources: Iterable[Resource]) -> Iterator[Route]:
        for resource in resources:
            if resource.custom:
                yield from custom_routes(resource, kind_name(resource), list_name(resource), self.parameters)
                continue
            routes = ResourceRoutes(resource, self.parameters, self.features, self.facts)
            yield from routes.of_resource()
            for subresource in resource.subresources.values():
                schema = self._types.of_kind(*subresource.gvk)
                options = schema if subresource.gvk.kind.endswith("Options") else None
                yield from routes.of_subresource(subresource, schema.name if schema else "", options)
