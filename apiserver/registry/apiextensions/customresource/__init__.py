"""Objects of custom resources."""
