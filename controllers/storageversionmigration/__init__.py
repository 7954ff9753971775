"""The controller that has all objects of a resource written anew, for StorageVersionMigrations."""
