"""What plugins and the cycle agree on. Nothing here does I/O or knows a plugin."""
