"""Holds what is particular to semantic parameters: KEP-4381 as drafted, 1.29+kep4381."""
