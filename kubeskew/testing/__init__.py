"""Clusters for users' tests: the fixture `kubeskew_cluster` of pytest, and its classes."""
