"""Registers CustomResourceDefinitions."""
