"""Dynamic resource allocation on a node: manager, checkpoint, plugins, example driver."""
