"""Registers what is particular to the kinds of storagemigration.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "storageversionmigrations": "storageversionmigration.strategy:MigrationStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "StorageVersionMigration": "storageversionmigration.table:storage_version_migration",
}
