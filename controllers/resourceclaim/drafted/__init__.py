"""Claims as KEP-3063's draft has them, with templates inside of pods."""
