"""The example driver with semantic parameters, as KEP-4381 had drafted them."""
