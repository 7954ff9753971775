"""Reads and answers the cases of `kubeskew allocate`."""
