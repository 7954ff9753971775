"""Holds the rules by which resources are written: the generic registry and the strategies of kinds."""
