"""The dependency parser: Dozat & Manning's biaffine model, tree decoding, training and scoring."""
