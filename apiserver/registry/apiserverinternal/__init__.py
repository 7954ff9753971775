"""Registers what is particular to the kinds of internal.apiserver.k8s.io: each by module and name."""

STRATEGIES = {
    "storageversions": "storageversion:StorageVersionStrategy",
}

CELLS = {
    "StorageVersion": "storageversion:storage_version_cells",
}
