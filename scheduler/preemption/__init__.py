"""Which pods have to leave so that one of higher priority fits, and how they are made to."""
