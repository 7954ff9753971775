"""Reads stored objects as the API server of some version does, without starting one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.catalogue.types import OBJECT_META
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Schema
from kubeskew.apimachinery.versions import Version, supported
from kubeskew.apiserver.apiextensions.table import STORED_AS, Definition, Snapshot
from kubeskew.apiserver.features import Features, SchemaFeatures
from kubeskew.apiserver.registry.codec import Codec, undecodable
from kubeskew.apiserver.registry.generic.strategy import StrategyContext, strategies_of
from kubeskew.apiserver.registry.generic.update import complete_and_check
from kubeskew.apiserver.storage.encoding import encode, loads
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import decoded, known_object
from kubeskew.apiserver.user import AUTHENTICATED_GROUP, MASTERS_GROUP, User
from kubeskew.apiserver.webhooks.client import CallError

ADMINISTRATOR = User("kubernetes-admin", groups=(MASTERS_GROUP, AUTHENTICATED_GROUP))


class NoWebhooks:
    """Stands in for conversion webhooks (`ReviewClient`): an audit reads a log and calls nobody."""

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        raise CallError("an audit of stored objects calls no webhooks")


@dataclass(frozen=True, slots=True)
class Settings:
    """Version, gates and served APIs of a server decide how it reads and writes."""

    gates: FeatureGates
    runtime_config: Mapping[str, bool]

    @property
    def version(self) -> Version:
        return self.gates.version

    @classmethod
    def taken_along(
        cls,
        version: Version,
        gates: Mapping[str, bool],
        runtime_config: Mapping[str, bool],
        by_hand: Mapping[str, bool] | None = None,
    ) -> "Settings":
        """The server is moved to a version with the gates it has.

        Gates that the version does not know, or has locked otherwise, are left out, for they have to be unset
        before the move. `by_hand` counts in any case: raises ValueError if it cannot be set.
        """
        return cls(gates_taken_along(version, gates, by_hand), runtime_config)


def gates_taken_along(
    version: Version,
    gates: Mapping[str, bool],
    by_hand: Mapping[str, bool] | None = None,
    bugs: Mapping[str, bool] | None = None,
) -> FeatureGates:
    """Gates follow `Settings.taken_along`; `bugs` are the known bugs that were switched by hand, which stay
    as they are."""
    known = FeatureGates(version)
    kept = {}
    for name, on in gates.items():
        spec = known.spec(name)
        if spec is not None and known.knows(name) and not (spec.locked and spec.default != on):
            kept[name] = on
    chosen = FeatureGates(version, {**kept, **(by_hand or {})}, bugs)
    chosen.validate()
    return chosen


class StorageServer:
    """The part of an API server that reads and writes stored bytes."""

    def __init__(self, settings: Settings, entries: Iterable[Entry] = ()) -> None:
        self._entries = {entry.key: entry for entry in sorted(entries, key=lambda entry: entry.key)}
        self._of_resource: defaultdict[str, list[Entry]] = defaultdict(list)  # in the order of their keys
        for key, entry in self._entries.items():
            self._of_resource[key.resource].append(entry)
        self.version = settings.version
        self.gates = settings.gates
        builtin = catalogue_for(settings.version, settings.gates, settings.runtime_config)
        metadata, self._features = builtin.definitions()[OBJECT_META], Features.of(settings.gates)
        self._definitions = _definitions(self._entries.values(), metadata, self._features.schemas)
        self._table = Snapshot(builtin, self._definitions.values(), 0)
        clock, entropy = SystemClock(), SeededEntropy(0)
        self._environment = Environment(settings.version, settings.gates, clock, entropy)
        counts = Counter(entry.revision for entry in self._entries.values())
        shared = frozenset(revision for revision, count in counts.items() if count > 1)
        self._codec = Codec(self._table, self._environment, NoWebhooks(), shared)
        self._stores = builtin.stores()

    def keeps(self, entry: Entry) -> bool:
        """The server has a kind whose objects lie where the entry lies."""
        return entry.key.resource in self._stores or entry.key.resource in self._definitions

    def serves(self, entry: Entry) -> bool:
        definition = self._definitions.get(entry.key.resource)
        if entry.key.resource in self._stores or definition is None:
            return self._stores.get(entry.key.resource, False)
        versions = [name for name, version in definition.versions.items() if version.get("served")]
        return any(self._table.by_kind(definition.group, name, definition.kind) for name in versions)

    def read(self, entry: Entry) -> Object:
        """The object is in the version it is stored in, with the fields that this server knows.

        Raises UnreadableError.
        """
        resource = self._read_as(entry)
        read: Object = loads(self._codec.served(resource, entry.value, entry.revision))
        return read

    def conversion(self, entry: Entry) -> str:
        """The text names the conversion by a webhook that a read needs, or is empty."""
        definition = self._definitions.get(entry.key.resource)
        if definition is None or entry.key.resource in self._stores or definition.webhook is None:
            return ""
        stored, wanted = decoded(entry.value)["apiVersion"], f"{definition.group}/{definition.storage}"
        return f"{stored} to {wanted}" if stored != wanted else ""

    def rewritten(self, entry: Entry) -> Entry:
        """This server would write the entry like that. Raises UnreadableError."""
        return entry._replace(value=encode(self._codec.current(entry.value, entry.revision)))

    def refusals(self, entry: Entry) -> list[str]:
        """Messages of refused updates that change nothing of an object.

        Both ways of writing are tried: the object, and its status. Raises UnreadableError.
        """
        resource = self._codec.hub(self._read_as(entry))
        strategy, status = strategies_of(resource, self._environment.version.preview)
        ways = [("", strategy)] + ([("status", status)] if "status" in resource.subresources else [])
        texts = []
        for subresource, each in ways:
            ctx = self._context(resource, subresource)
            old, new = (self._codec.object(resource, entry.value, entry.revision) for _ in "12")
            try:
                complete_and_check(each, new, old, ctx)
            except StatusError as error:
                texts.append(error.message)
        return list(dict.fromkeys(texts))

    def _context(self, resource: Resource, subresource: str) -> StrategyContext:
        environment = self._environment
        return StrategyContext(
            gates=self.gates,
            features=self._features,
            now=environment.clock.now(),
            entropy=environment.entropy,
            catalogue=self._table,
            resource=resource,
            user=ADMINISTRATOR,
            verb="update",
            list_entries=self._listed,
            get_entry=self._stored,
            subresource=subresource,
            request_group=resource.group,
        )

    def _listed(self, resource: str, namespace: str | None) -> Iterator[Object]:
        for entry in self._of_resource[resource]:
            if namespace in (None, entry.key.namespace):
                obj = known_object(entry)
                if obj is not None:
                    yield obj

    def _stored(self, resource: str, namespace: str, name: str) -> Object | None:
        entry = self._entries.get(Key(resource, namespace, name))
        return known_object(entry) if entry is not None else None

    def _read_as(self, entry: Entry) -> Resource:
        """The resource is in the version that the object is stored in; of a custom resource whose definition
        does not have that version, in its storage version, so that reading reports it."""
        obj = decoded(entry.value)
        group, _, version = obj["apiVersion"].rpartition("/")
        resource = self._table.by_kind(group, version, obj["kind"])
        definition = self._definitions.get(entry.key.resource)
        if resource is None and definition is not None:
            resource = self._table.by_kind(group, definition.storage, definition.kind)
        if resource is None:
            raise undecodable(GroupVersionKind(group, version, obj["kind"]))
        return resource


def _definitions(
    entries: Iterable[Entry], metadata: Schema, features: SchemaFeatures
) -> dict[str, Definition]:
    """Accepted definitions by the place where their objects lie; those that cannot be read are left out."""
    found = {}
    for entry in entries:
        obj = known_object(entry) if entry.key.resource == STORED_AS else None
        if obj is not None:
            definition = Definition(obj, entry.revision, entry.created, metadata, features)
            if definition.is_served:
                found[definition.stored_as] = definition
    return found


def is_custom(obj: Object) -> bool:
    """No release has the object's kind built in."""
    group, _, version = obj["apiVersion"].rpartition("/")
    return all(
        catalogue_for(each).by_kind(group, version, obj["kind"]) is None for each in reversed(supported())
    )
