"""Reads stored objects as the API server of some version does, without starting one."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.apiserver.registry.codec import Codec
from kubeskew.apiserver.storage.encoding import encode, loads
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import decoded
from kubeskew.apiserver.webhooks.client import CallError


class NoWebhooks:
    """Stands in for conversion webhooks (`ReviewClient`): an audit reads a log and calls nobody."""

    async def post(self, config: Object, review: Object, seconds: float) -> Object:
        raise CallError("an audit of stored objects calls no webhooks")


@dataclass(frozen=True, slots=True)
class Settings:
    """Holds what decides how a server reads and writes: its version, gates, and the APIs it serves."""

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
        """Returns the settings of a server that is moved to a version with the gates it has.

        Those that the version does not know, or has locked otherwise, are left out, for they have to be
        unset before the move. `by_hand` counts in any case: raises ValueError if it cannot be.
        """
        known = FeatureGates(version)
        kept = {}
        for name, on in gates.items():
            spec = known.spec(name)
            if spec is not None and not (spec.locked and spec.default != on):
                kept[name] = on
        chosen = FeatureGates(version, {**kept, **(by_hand or {})})
        chosen.validate()
        return cls(chosen, runtime_config)


class StorageServer:
    """The part of an API server that reads and writes stored bytes."""

    def __init__(self, settings: Settings) -> None:
        self.version = settings.version
        self.gates = settings.gates
        self._table = catalogue_for(settings.version, settings.gates, settings.runtime_config)
        clock, entropy = SystemClock(), SeededEntropy(0)
        environment = Environment(settings.version, settings.gates, clock, entropy)
        self._codec = Codec(self._table, environment, NoWebhooks())
        self._stores = self._table.stores()

    def keeps(self, entry: Entry) -> bool:
        """Decides whether the release has a kind whose objects lie where the entry lies."""
        return entry.key.resource in self._stores

    def serves(self, entry: Entry) -> bool:
        """Decides whether any version of that kind is served."""
        return self._stores.get(entry.key.resource, False)

    def read(self, entry: Entry) -> Object:
        """Returns the object in the version it is stored in, as far as this server knows its fields.

        Raises UnreadableError.
        """
        group, _, version = decoded(entry.value)["apiVersion"].rpartition("/")
        resource = self._table.by_kind(group, version, decoded(entry.value)["kind"])
        if resource is None:
            return self._codec.current(entry.value, entry.revision)  # raises: nobody knows that version
        read: Object = loads(self._codec.served(resource, entry.value, entry.revision))
        return read

    def rewritten(self, entry: Entry) -> Entry:
        """Returns the entry as this server would write it anew. Raises UnreadableError."""
        return entry._replace(value=encode(self._codec.current(entry.value, entry.revision)))


def is_custom(obj: Object) -> bool:
    """Returns whether no release has the object's kind built in."""
    group, _, version = obj["apiVersion"].rpartition("/")
    return all(
        catalogue_for(each).by_kind(group, version, obj["kind"]) is None for each in reversed(SUPPORTED)
    )
