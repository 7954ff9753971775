"""Claims that drivers allocate: classic dynamic resource allocation, 1.26 to 1.31."""
