"""Makes Tables: the rows and columns that `kubectl get` shows; each kind brings its cells."""
