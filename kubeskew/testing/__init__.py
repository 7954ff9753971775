"""Clusters for the tests of others: the fixture `kubeskew_cluster` of pytest, and what it hands out."""
