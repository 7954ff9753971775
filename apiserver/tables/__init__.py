"""Objects as Tables: what the server prints for `kubectl get`."""

from kubeskew.apiserver.tables.table import render

__all__ = ["render"]
