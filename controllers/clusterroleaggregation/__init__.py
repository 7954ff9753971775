"""Combines cluster roles as their aggregation rules say."""
