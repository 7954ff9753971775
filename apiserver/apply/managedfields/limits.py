"""Limits the contents of an entry of managedFields and the number of entries.

Source: k8s.io/apimachinery/pkg/util/managedfields/internal (stripmeta.go, capmanagers.go), 1.36.
"""

from kubeskew.apiserver.apply.managedfields.entries import UPDATE, Managed, ManagerId, VersionedFieldSet
from kubeskew.apiserver.apply.managedfields.field_sets import FieldSet

MAX_UPDATERS = 10
ANCIENT = "ancient-changes"

# What no manager ever owns.
UNOWNED = FieldSet.of_fields(
    [
        ("apiVersion",),
        ("kind",),
        ("metadata",),
        *(
            ("metadata", name)
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    ]
)


def stripped(owned: VersionedFieldSet | None) -> VersionedFieldSet | None:
    """Returns the fields without system fields; None if nothing is left."""
    if owned is None:
        return None
    fields = owned.fields.difference(UNOWNED)
    return None if fields.is_empty() else owned._replace(fields=fields)


def capped(managed: Managed) -> Managed:
    """Returns the oldest updaters' entries put together, one for each version, until there are few enough."""
    managers, times = managed.managers, managed.times
    updaters = [manager for manager, owned in managers.items() if not owned.applied]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return managed
    updaters.sort(key=lambda manager: (times.get(manager, ""), manager))
    first: dict[str, ManagerId] = {}
    for manager in updaters:
        if excess <= 0:
            break
        owned = managers[manager]
        if owned.api_version not in first:
            first[owned.api_version] = manager
            continue
        bucket = ManagerId(ANCIENT, UPDATE, owned.api_version)
        if bucket not in managers:
            managers[bucket] = managers.pop(first[owned.api_version])
        if manager != bucket:
            merged = owned.fields.union(managers[bucket].fields)
            managers[bucket] = owned._replace(fields=merged)
            del managers[manager]
            if manager in times:
                times[bucket] = times[manager]
        excess -= 1
    return managed
