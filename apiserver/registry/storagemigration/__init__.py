"""Strategies and cells of storagemigration.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "storageversionmigrations": "storageversionmigration:MigrationStrategy",
}

CELLS = {
    "StorageVersionMigration": "storageversionmigration:storage_version_migration_cells",
}
