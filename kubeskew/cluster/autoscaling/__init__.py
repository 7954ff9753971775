"""Reads what `kubeskew simulate` is given, and asks the scheduler's plugins."""
