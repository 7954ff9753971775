"""Orders merged lists: items of the patch in the patch's order, the rest in their old places.

An element's place is that of its merge key, or of itself in lists of scalars.
Source: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, 1.36.
"""

from typing import Any

from kubeskew.apiserver.apply.patching.values import identity

Items = list[Any]


def in_order(items: Items, order: Items, key: str | None) -> Items:
    """Returns `items` sorted by their place in `order`, those that are to be deleted last."""
    places = _places(order, key)
    kept = [item for item in items if not (key and item.get("$patch") == "delete")]
    deleted = [item for item in items if key and item.get("$patch") == "delete"]
    found = [places.get(_mark(item, key)) for item in kept]
    if None not in found:
        ranked = sorted(zip(found, range(len(kept)), strict=True))
        return [kept[position] for _, position in ranked] + deleted
    return _sorted_partly(kept, found) + deleted


def _sorted_partly(items: Items, places: list[int | None]) -> Items:
    """Sorts as upstream's insertion sort, in which what has no place counts as less than its neighbour."""
    done: list[tuple[int | None, Any]] = []
    for place, item in zip(places, items, strict=True):
        at = len(done)
        while at > 0:
            before = done[at - 1][0]
            if place is not None and before is not None and place >= before:
                break
            at -= 1
        done.insert(at, (place, item))
    return [item for _, item in done]


def merged_order(left: Items, right: Items, order: Items, key: str | None) -> Items:
    """Returns both lists in one, each in its own order; `left` goes first where `order` says so."""
    places = _places(order, key)
    merged: Items = []
    taken = 0
    for item in right:
        theirs = places.get(_mark(item, key))
        while taken < len(left):
            ours = places.get(_mark(left[taken], key))
            if ours is None or theirs is None or ours >= theirs:
                break
            merged.append(left[taken])
            taken += 1
        merged.append(item)
    return merged + left[taken:]


def _mark(item: Any, key: str | None) -> Any:
    return identity(item.get(key) if key else item)


def _places(order: Items, key: str | None) -> dict[Any, int]:
    """Returns the first position of each mark."""
    places: dict[Any, int] = {}
    for position, item in enumerate(order):
        places.setdefault(_mark(item, key), position)
    return places
