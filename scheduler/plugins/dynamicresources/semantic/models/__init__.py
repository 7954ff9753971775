"""The semantic models, one per file: how parameters match attributes, and what an allocation takes."""
