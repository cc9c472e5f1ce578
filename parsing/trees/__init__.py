"""Trees as data: integer arrays, the cache of them, roles, sentences for people and their drawings."""
