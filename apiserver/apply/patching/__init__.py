"""Patches change an object as a whole here: JSON patch, merge patch, strategic merge patch.

Each takes a document of JSON values, which it leaves alone, and returns a new one. Nothing here knows what an
object is: decoding, defaults and validation of the result come after.
"""
