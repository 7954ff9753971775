"""Registers what is particular to the kinds of internal.apiserver.k8s.io: each by module and name."""

STRATEGIES = {
    "storageversions": "storageversion.strategy:StorageVersionStrategy",
}

CELLS = {
    "StorageVersion": "storageversion.table:storage_version",
}
