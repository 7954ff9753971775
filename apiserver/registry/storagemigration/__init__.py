"""Registers what is particular to the kinds of storagemigration.k8s.io: each by module and name."""

STRATEGIES = {
    "storageversionmigrations": "storageversionmigration:MigrationStrategy",
}

CELLS = {
    "StorageVersionMigration": "storageversionmigration:storage_version_migration_cells",
}
