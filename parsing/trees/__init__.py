"""Trees as data: integer arrays, the cache of them, brackets, sentences for people and their drawings."""
