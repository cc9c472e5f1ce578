"""Views of a sentence: encoders from word vectors and trees to one vector, registered under a name."""
