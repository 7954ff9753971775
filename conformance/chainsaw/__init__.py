"""Chainsaw's language: expressions, paths and files, and which of its keys are not done here."""
