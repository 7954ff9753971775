"""The page of a running cluster: its log as a picture, any moment of it, and buttons."""
