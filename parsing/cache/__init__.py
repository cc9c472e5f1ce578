"""Tree caches on disk: the format of a shard, the manifest, and the reader."""
