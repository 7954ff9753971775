"""DRA on a node as KEP-3063 had drafted it: drivers get the UID of a claim alone."""
