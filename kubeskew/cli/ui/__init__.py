"""The page of a running cluster: its log as a picture, its state at any moment, and buttons."""
