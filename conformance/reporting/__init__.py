"""Reports of runs: the page, comparing two of them, the commands that repeat what they tell of."""
