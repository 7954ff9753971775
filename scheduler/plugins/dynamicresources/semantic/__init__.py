"""Semantic parameters as KEP-4381 drafted them: the scheduler allocates resources that satisfy parameters."""
