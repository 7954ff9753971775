"""Merges a configuration into an object: the configuration's leaves win, lists with keys merge by key.

Source: sigs.k8s.io/structured-merge-diff/v6/typed/merge.go.
"""

from collections import deque
from typing import Any

from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apply.managedfields import atoms, path_elements
from kubeskew.apiserver.apply.managedfields.atoms import ABSENT, ItemError, Shape, TypedError


def merge(live: dict[str, Any], config: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Returns the value that merges both; it shares parts with them. Raises TypedError."""
    merged = _merge(live, config, schema, "")
    return {} if merged is ABSENT else merged


def _merge(live: Any, config: Any, schema: Schema, path: str) -> Any:
    shape = atoms.shape_of(schema, live if config is ABSENT else config)
    if shape is Shape.MAP:
        ours, theirs = _map(live), _map(config)
        if not atoms.is_atomic(schema) and (ours or theirs):
            return _merge_fields(ours, theirs, schema, path)
    elif shape is Shape.LIST:
        items, others = _list(live), _list(config)
        if not atoms.is_atomic_list(schema) and (items or others):
            return _ListMerge(items, others, schema, path).run()
    else:
        problems = [atoms.scalar_problem(schema, live), atoms.scalar_problem(schema, config)]
        if all(problems):
            raise TypedError([(path, f"lhs: {problems[0]}"), (path, f"rhs: {problems[1]}")])
    return live if config is ABSENT else config


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _merge_fields(live: dict[str, Any], config: dict[str, Any], schema: Schema, path: str) -> Any:
    merged = {}
    for name in live | config:
        there = atoms.field_schema(schema, name) or atoms.ANY
        value = _merge(live.get(name, ABSENT), config.get(name, ABSENT), there, f"{path}.{name}")
        if value is not ABSENT:
            merged[name] = value
    return merged or ABSENT


class _ListMerge:
    """Merges two lists of distinct items, keeping the order of each as far as they agree.

    Items that only the live list has stay in front of the next item that both have; where the orders of
    common items disagree, that of the configuration holds.
    """

    def __init__(self, live: list[Any], config: list[Any], schema: Schema, path: str) -> None:
        self._schema = atoms.item_schema(schema)
        self._path = path
        self._live = live
        self._theirs, self._their_items = self._index(config, schema, duplicates=False)
        self._ours, self._our_items = self._index(live, schema, duplicates=True)
        self._shared = deque(element for element in self._theirs if element in self._our_items)
        self._merged: set[str] = set()
        self._out: list[Any] = []

    def _index(
        self, items: list[Any], schema: Schema, *, duplicates: bool
    ) -> tuple[list[str], dict[str, Any]]:
        """Returns the elements in order, and the item of each; of several with one key, none."""
        elements: list[str] = []
        found: dict[str, Any] = {}
        for position, item in enumerate(items):
            try:
                element = atoms.item_element(schema, item)
            except ItemError as error:
                raise TypedError([(self._path, f"element {position}: {error}")]) from None
            if element in found and not duplicates:
                shown = path_elements.show_element(element)
                raise TypedError([(self._path, f"duplicate entries for key {shown}")])
            found[element] = None if element in found else item
            elements.append(element)
        return elements, found

    def run(self) -> Any:
        ours, theirs = self._ours, self._theirs
        left = right = 0
        while left < len(ours) or right < len(theirs):
            if left < len(ours) and right < len(theirs):
                if ours[left] == theirs[right]:
                    self._take_theirs(theirs[right])
                    left, right = left + 1, right + 1
                    continue
                if self._must_wait(ours[left]):
                    left += 1
                    continue
            if left < len(ours):
                if ours[left] not in self._their_items:
                    self._add(ours[left], self._live[left], ABSENT)
                    left += 1
                    continue
                if ours[left] in self._merged:
                    left += 1
            if right < len(theirs):
                self._take_theirs(theirs[right])
                right += 1
        return self._out or ABSENT

    def _must_wait(self, element: str) -> bool:
        """Decides whether an item is common, but not the next common one in the configuration's order."""
        return element in self._their_items and bool(self._shared) and self._shared[0] != element

    def _take_theirs(self, element: str) -> None:
        self._merged.add(element)
        if self._shared and self._shared[0] == element:
            self._shared.popleft()
        self._add(element, self._our_items.get(element, ABSENT), self._their_items[element])

    def _add(self, element: str, live: Any, config: Any) -> None:
        below = self._path + path_elements.show_element(element)
        value = _merge(live, config, self._schema, below)
        if value is not ABSENT:
            self._out.append(value)
