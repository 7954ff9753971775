"""Tables: the rows and columns that the server makes for `kubectl get`; each kind brings its cells."""
