"""ResourceSlice: strategy, and the rules of slices and devices."""
