"""Registers what is particular to the kinds of internal.apiserver.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "storageversions": "storageversion.strategy:StorageVersionStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "StorageVersion": "storageversion.table:storage_version",
}
