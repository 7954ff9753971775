"""Holds the patches that change an object as a whole: JSON patch, merge patch, strategic merge patch.

Each takes a document of JSON values, which it leaves alone, and gives a new one. Nothing here knows what
an object is: decoding, defaults and validation of the result come after.
"""
