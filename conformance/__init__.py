"""Scenario files, their runner, the matrix and its reports."""
