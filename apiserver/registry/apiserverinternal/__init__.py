"""Strategies and cells of internal.apiserver.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "storageversions": "storageversion:StorageVersionStrategy",
}

CELLS = {
    "StorageVersion": "storageversion:storage_version_cells",
}
