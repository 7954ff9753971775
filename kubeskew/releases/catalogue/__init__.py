"""Assembles the catalogue's data files from facts about releases, one document per minor and subject."""
