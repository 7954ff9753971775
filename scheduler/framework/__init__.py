"""The interfaces and values that plugins and the cycle share. Nothing here does I/O or knows a plugin."""
