"""The controller manager: control loops that only ever talk to the API."""
