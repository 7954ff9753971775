"""Reports of runs: the page, the comparison of two runs, and the commands that repeat their cells."""
