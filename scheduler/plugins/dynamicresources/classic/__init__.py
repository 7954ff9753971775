"""Claims that controllers of drivers allocate: finding nodes together with them, 1.26 to 1.31."""
