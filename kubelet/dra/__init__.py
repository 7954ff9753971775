"""Dynamic resource allocation on a node: manager, checkpoint, plugins, wiping of slices."""
