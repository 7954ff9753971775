"""The messages of etcd's API: upstream's names and numbers, and what is generated from them."""
