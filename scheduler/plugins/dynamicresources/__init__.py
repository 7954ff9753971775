"""The DynamicResources plugin, with all that is its own: claims, classes, taints, binding."""
