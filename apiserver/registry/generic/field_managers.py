"""Makes the field manager of a resource, over the schemas of all its versions."""

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.memoizing import remembered
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apiextensions.conversion import is_empty
from kubeskew.apiserver.apply.managedfields import FieldManager
from kubeskew.apiserver.registry.generic import manager_versions
from kubeskew.apiserver.registry.generic.services import RegistryServices

MAX_MANAGER = 128


def field_manager(services: RegistryServices, resource: Resource) -> FieldManager:
    """Returns the field manager of a resource; it knows the schema of every registered version."""

    def schema_for(api_version: str) -> Schema | None:
        group, _, version = api_version.rpartition("/")
        found = services.table.by_kind(group, version, resource.kind)
        if found is None and resource.custom:  # upstream words it otherwise for them
            raise StatusError(500, "", f"request to convert CR to an invalid group/version: {api_version}")
        return found.schema if found else None

    def convert(obj: Object, api_version: str) -> Object:
        group, _, version = api_version.rpartition("/")
        target = services.table.by_kind(group, version, resource.kind)
        known = manager_versions.converted(obj, target) if target is not None else None
        if known is not None:
            return known
        if resource.custom and services.features.requests.conversion_wants_metadata:
            _check_metadata(obj, api_version)
        return services.codec.convert_to(obj, GroupVersionKind(group, version, resource.kind))

    return FieldManager(
        schema_for,
        convert,
        blank=not resource.custom,
        refuses_duplicates=services.features.requests.refuses_duplicates,
    )


def _check_metadata(obj: Object, api_version: str) -> None:
    """Raises 500 for an object that lost its metadata on the way, unless it has nothing at all.

    Source: apiextensions-apiserver pkg/apiserver/conversion/converter.go (restoreObjectMeta), 1.27.0, where
    the object has the new version when its name is told.
    """
    if "metadata" not in obj and not is_empty(obj):
        what = f"conversion for {api_version}, Kind={obj.get('kind')} returned invalid metadata"
        raise StatusError(500, "", f"{what} in object at index 1: missing metadata in converted object")


def manager_name(field_manager_param: str, user_agent: str) -> str:
    """Returns the manager of a write: as the client says, else the first word of its user agent."""
    return field_manager_param or _product(user_agent)


@remembered(256)
def _product(user_agent: str) -> str:
    name = "".join(char for char in user_agent.split("/", 1)[0][:MAX_MANAGER] if char.isprintable())
    return name or "unknown"
