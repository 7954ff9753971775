"""The controller manager: control loops that use only the API."""
