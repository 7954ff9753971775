"""The generic registry: create, update, delete and read any kind, calling its strategy where kinds differ."""
