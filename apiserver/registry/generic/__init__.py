"""Creates, updates, deletes and reads any kind, calling its strategy where kinds differ."""
