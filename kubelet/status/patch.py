"""Makes strategic merge patches of a status, from the server's to the kubelet's.

A patch names only what changed. So two writers of one status (kubelet and scheduler, kubelet and a device
plugin's administrator) do not undo each other, and an older kubelet keeps what it does not know.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object

# Lists that are merged by a key; other lists are replaced.
MERGE_KEYS = {"conditions": "type", "addresses": "type"}
# Lists with a merge key upstream that the kubelet writes whole.
_REPLACED = frozenset({"hostIPs", "podIPs", "volumesAttached"})
_OPTIONAL = ("reason", "message")
# Conditions that only the kubelet writes, and removes when they no longer apply.
_PASSING = frozenset({"PodResizePending", "PodResizeInProgress"})


def status_patch(old: Mapping[str, Any], new: Mapping[str, Any], owned: Iterable[str]) -> Object:
    """Returns the `status` part of a patch; empty if nothing of `owned` differs.

    An owned field not in `new` is removed.
    """
    patch: Object = {}
    for name in owned:
        before, after = old.get(name), new.get(name)
        if name in MERGE_KEYS:
            patch |= _merged(name, before or [], after or [])
        elif before != after:
            patch[name] = (
                after if name not in _REPLACED or not before else [{"$patch": "replace"}, *(after or [])]
            )
    return patch


def _merged(name: str, old: Sequence[Object], new: Sequence[Object]) -> Object:
    """Returns changed and added entries, and the order of all. Entries of others stay."""
    key = MERGE_KEYS[name]
    before = {entry[key]: entry for entry in old}
    changed = [entry for entry in new if not _same(before.get(entry[key]), entry)]
    ours = {entry[key] for entry in new}
    over = [kind for kind in before if kind in _PASSING and kind not in ours]
    if not (changed or over):
        return {}
    order = [*new, *(entry for entry in old if entry[key] not in {*ours, *over})]
    return {
        f"$setElementOrder/{name}": [{key: entry[key]} for entry in order],
        name: [
            *(_change(before.get(entry[key]), entry) for entry in changed),
            *({"$patch": "delete", key: kind} for kind in over),
        ],
    }


def _same(before: Object | None, after: Object) -> bool:
    return before is not None and all(
        before.get(name) == value for name, value in _change(before, after).items()
    )


def _change(before: Object | None, after: Object) -> Object:
    """Returns `after`, with null for a reason or message that is removed; fields of newer versions stay."""
    gone = [name for name in _OPTIONAL if (before or {}).get(name) and not after.get(name)]
    return {**dict.fromkeys(gone), **after}
