"""Registers what is particular to the kinds of storagemigration.k8s.io: each by module and name."""

STRATEGIES = {
    "storageversionmigrations": "storageversionmigration.strategy:MigrationStrategy",
}

CELLS = {
    "StorageVersionMigration": "storageversionmigration.table:storage_version_migration",
}
