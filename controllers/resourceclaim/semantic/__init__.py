"""Claims with semantic parameters: KEP-4381 as drafted."""
