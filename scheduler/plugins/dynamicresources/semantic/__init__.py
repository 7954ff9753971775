"""Semantic parameters as KEP-4381 drafted them: the scheduler allocates what parameters say of resources."""
