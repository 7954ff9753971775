"""Keeps as many pods as replica sets and replication controllers specify."""
