"""Runs the programs of fake containers: processes, their files and tasks, in virtual or in real time."""
