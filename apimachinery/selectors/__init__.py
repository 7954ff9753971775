"""Selects objects by labels, and nodes by what pods require and tolerate."""
