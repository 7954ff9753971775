"""etcd's API, v3, over anything that keeps the revisions of keys."""
