"""Real programs in the place of emulated components: the choice, the checks, the command lines."""
