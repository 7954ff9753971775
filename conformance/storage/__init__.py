"""Says what API servers of other versions would make of the stored objects."""
