"""The controller of StorageVersionMigrations, which has all objects of a resource written again."""
