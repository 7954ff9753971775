"""An index of a kind's objects by the values of labels that lists have selected them by.

A list by label would compare every object, though it names one in a hundred. The index of a label is made by
the first list that selects by it, and brought up to date by the next one: a write only notes which object has
changed. Objects that cannot be read fail any list, so then there is no index.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from kubeskew.apimachinery.selectors.label_requirements import EQUAL
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.caching.offload import TimeSlice
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key

_UNREAD_MOST = 20_000  # changes that no list has asked for, if a label has few objects
LABELS_MAX = 8  # of a kind; by others lists compare every object
_AT_ONCE = 500  # objects, between two looks at the time
_PART = 4  # more than one in so many objects are not looked up one by one

LabelsOf = Callable[[Entry], Mapping[str, str]]  # raises what reading an object raises


class _Label:
    """One label: the objects by its value, and those of which it is not known."""

    def __init__(self) -> None:
        self.keys: dict[str, dict[Key, None]] = {}
        self.values: dict[Key, str] = {}
        self.unreadable: dict[Key, None] = {}
        self.changed: dict[Key, None] = {}

    def forget(self, key: Key) -> None:
        self.unreadable.pop(key, None)
        value = self.values.pop(key, None)
        if value is not None:
            keys = self.keys[value]
            del keys[key]
            if not keys:
                del self.keys[value]

    def note(self, key: Key, value: str) -> None:
        self.values[key] = value
        self.keys.setdefault(value, {})[key] = None


class LabelIndex:
    def __init__(self, store: Store, resource: str, labels_of: LabelsOf) -> None:
        self._store = store
        self._resource = resource
        self._labels_of = labels_of
        self._labels: dict[str, _Label] = {}
        self._follows = False

    async def candidates(self, selector: LabelSelector) -> Sequence[Entry] | None:
        """The objects of now, in any order, among which are all that `selector` matches; None if they are to
        be found by comparing all. Gives way to other requests while there is much to bring up to date.
        """
        equal = [each for each in selector.requirements if each.operator in EQUAL]
        wanted = next((each for each in equal if each.key in self._labels), next(iter(equal), None))
        if wanted is None or not selector.selectable:
            return None
        label = self._labels.get(wanted.key)
        if label is None:
            if len(self._labels) >= LABELS_MAX:
                return None
            label = self._begin(wanted.key)
        await self._bring_up_to_date(label, wanted.key)
        if self._labels.get(wanted.key) is not label:  # dropped meanwhile: it lacks what was written since
            return None
        keys = label.keys.get(wanted.values[0], {})
        if label.unreadable or len(keys) * _PART > self._store.list(self._resource, limit=1).remaining + 1:
            return None
        found = (self._store.get(key) for key in keys)
        return [entry for entry in found if entry is not None]

    def _begin(self, name: str) -> _Label:
        label = self._labels[name] = _Label()
        label.changed = {entry.key: None for entry in self._store.list(self._resource).entries}
        if not self._follows:
            self._store.follow(self._resource, self._changed)
            self._follows = True
        return label

    def _changed(self, key: Key) -> None:
        for name, label in [*self._labels.items()]:
            label.changed[key] = None
            if len(label.changed) > max(_UNREAD_MOST, 2 * len(label.values)):
                del self._labels[name]  # nobody selects by it any more, or nearly so

    async def _bring_up_to_date(self, label: _Label, name: str) -> None:
        time_slice = TimeSlice()
        while label.changed:
            if time_slice.is_over:
                await time_slice.give_way()
            for key in [*islice(label.changed, _AT_ONCE)]:
                del label.changed[key]
                label.forget(key)
                entry = self._store.get(key)
                if entry is None:
                    continue
                try:
                    value = self._labels_of(entry).get(name)
                except Exception:  # the list that compares it says what is wrong
                    label.unreadable[key] = None
                    continue
                if value is not None:
                    label.note(key, value)
