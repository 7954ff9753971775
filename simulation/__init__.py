"""A whole cluster in one process, with the exploration of its failures and their judgement."""
