"""Rules that hold for many kinds: names, object metadata, and what a schema itself demands."""
