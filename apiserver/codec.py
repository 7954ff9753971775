"""Between the bytes of the store and the versions that are served.

An object is parsed at most once per revision and served version; when the stored bytes already are what this
server would write, they are served as they are. Versions, fields and defaults that this server does not know
have upstream's effect: the first an error, the others are dropped on reading.
"""

from typing import Any

from apimachinery import conversion, defaulting
from apimachinery.component import World
from apimachinery.errors import Object, StatusError, internal
from apimachinery.normalising import WrongShape, normalise
from apimachinery.pruning import prune
from apimachinery.resources import GroupVersionKind, Resource, ResourceTable
from apiserver.encoding import encode, loads
from apiserver.generations import Generations

_REMEMBERED = 20_000  # revisions x versions, twice; 100 bytes each when served as stored
_WRITING = 500
_BYTES_MAX = 16 << 20  # of values, in each generation of either memory
_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"


class Codec:
    """Encodes for the store and decodes from it, at one version and gate set."""

    def __init__(self, table: ResourceTable, world: World) -> None:
        self.table = table
        self.world = world
        # Served bytes by (revision, apiVersion); True: the stored bytes themselves.
        self._served: Generations[tuple[int, str], bytes | bool] = Generations(
            _REMEMBERED, lambda _, served: 0 if isinstance(served, bool) else len(served), _BYTES_MAX
        )
        # What this server has just written or is writing: watchers see it before its revision is known here.
        self._own: Generations[bytes, str] = Generations(_WRITING, lambda value, _: len(value), _BYTES_MAX)

    def hub(self, resource: Resource) -> Resource:
        """The resource in the version that this server stores."""
        if resource.gvk == resource.storage:
            return resource
        return self.table.by_kind(*resource.storage) or resource

    def expect(self, value: bytes, resource: Resource) -> None:
        """This server is about to write `value`, in the version of `resource`."""
        self._own.put(value, resource.api_version)

    def remember(self, revision: int, resource: Resource) -> None:
        """The value at `revision` was written by this server, in the version of `resource`."""
        self._served.put((revision, resource.api_version), True)

    def served(self, resource: Resource, value: bytes, revision: int) -> bytes:
        """The stored `value` in the version of `resource`, without resourceVersion."""
        key = (revision, resource.api_version)
        found = self._served.get(key)
        if found is None:
            own = self._own.get(value) == resource.api_version
            found = own or self._examine(resource, value)
            self._served.put(key, found)
        return value if isinstance(found, bool) else found

    def object(self, resource: Resource, value: bytes, revision: int) -> Object:
        """The same as a fresh object, with its resourceVersion."""
        obj: Object = loads(self.served(resource, value, revision))
        obj["metadata"]["resourceVersion"] = str(revision)
        return obj

    def convert(self, obj: Object, resource: Resource) -> Object:
        """`obj`, of any registered version, in the version of `resource`."""
        if obj["apiVersion"] == resource.api_version:
            return obj
        return conversion.convert(obj, resource.gvk, self.table)

    def default(self, obj: Object, resource: Resource) -> Object:
        """`obj` with the defaults of its version."""
        return defaulting.apply_defaults(obj, resource.schema, self.defaults())

    def defaults(self) -> Any:
        return defaulting.DefaultingContext(self.world.version, self.world.gates, self.world.clock.now())

    def _examine(self, resource: Resource, value: bytes) -> bytes | bool:
        obj = loads(value)
        stored = self._stored_as(obj)
        try:
            known = prune(obj, stored.schema)[0] if stored.custom else normalise(obj, stored.schema)
        except WrongShape as error:
            raise internal(f"unable to decode the stored object: {error}") from error
        known.update(kind=obj["kind"], apiVersion=obj["apiVersion"])
        served = self.convert(self.default(known, stored), resource)
        return True if served == obj else encode(served)

    def _stored_as(self, obj: Object) -> Resource:
        group, _, version = obj["apiVersion"].rpartition("/")
        found = self.table.by_kind(group, version, obj["kind"])
        if found is None:
            raise undecodable(GroupVersionKind(group, version, obj["kind"]))
        return found


def undecodable(gvk: GroupVersionKind) -> StatusError:
    """The answer to reading what is stored in a version that this server does not know."""
    text = f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{_SCHEME}"'
    return StatusError(500, "", text, {})
