"""Lists the routes that are of no resource: discovery, the version, the issuer of service accounts.

Source: apiserver pkg/endpoints/discovery/{legacy,root,group,version}.go, pkg/server/routes/version.go;
pkg/routes/{openidmetadata,logs}.go, 1.31 to 1.36.
"""

from kubeskew.apimachinery.catalogue.types import META
from kubeskew.apiserver.features import DocumentFeatures
from kubeskew.apiserver.openapi.parameters import Parameters
from kubeskew.apiserver.openapi.resource_routes import media_types
from kubeskew.apiserver.openapi.routes import STRING, Route, base_path, identify

_VERSION = "io.k8s.apimachinery.pkg.version.Info"
_JSON = ("application/json",)
_OF_DISCOVERY = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
OF_ISSUER = (".well-known/openid-configuration", "openid/v1/jwks")


def plain_routes() -> dict[str, list[Route]]:
    """Returns the routes beside those of groups, by the documents of v3 that they belong to."""
    configuration, keys = OF_ISSUER
    return {
        configuration: [_get(configuration, "getServiceAccountIssuerOpenIDConfiguration", STRING, _JSON)],
        keys: [_get(keys, "getServiceAccountIssuerOpenIDKeyset", STRING, ("application/jwk-set+json",))],
        "version": [_get("version", "getCodeVersion", _VERSION, _JSON, _JSON)],
        "api": [_discovery("api", "getAPIVersions", "APIVersions")],
        "apis": [_discovery("apis", "getAPIVersions", "APIGroupList")],
    }


def logs_routes(parameters: Parameters) -> dict[str, list[Route]]:
    """Returns the routes of log files, which a server has if its flags say so."""
    routes = []
    for path, name in (("/logs/", "logFileListHandler"), ("/logs/{logpath}", "logFileHandler")):
        operation, tags = identify(name, path)
        routes.append(Route(path, "get", operation, tags, parameters.of_path(path), consumes=(), codes=()))
    return {"logs": routes}


def group_route(group: str) -> Route:
    """Returns the route that tells of a group."""
    return _discovery(f"apis/{group}", "getAPIGroup", "APIGroup")


def version_route(group: str, version: str, features: DocumentFeatures) -> Route:
    """Returns the route that lists the resources of a group and version."""
    path = base_path(group, version).removeprefix("/")
    types = media_types(features)
    return _get(path, "getAPIResources", f"{META}APIResourceList", types, types)


def _discovery(path: str, operation: str, kind: str) -> Route:
    return _get(path, operation, META + kind, _OF_DISCOVERY, _OF_DISCOVERY)


def _get(
    path: str, name: str, answer: str, produces: tuple[str, ...], consumes: tuple[str, ...] = ()
) -> Route:
    operation, tags = identify(name, path)
    return Route(f"/{path}/", "get", operation, tags, consumes=consumes, produces=produces, answer=answer)
