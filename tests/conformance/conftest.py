"""Puts this folder on the path, so that the tests of the folders below find its helpers."""
