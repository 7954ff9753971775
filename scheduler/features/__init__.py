"""Holds what differs between releases and gates in the scheduler, as values made at construction."""
