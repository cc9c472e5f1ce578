"""Words: vocabularies, pre-trained vectors and the tables that encoders read."""
