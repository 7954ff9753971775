"""Caches values, each module with a rule that forgets; runs long work off the event loop."""
