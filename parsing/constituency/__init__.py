"""The constituency parser: Kitaev & Klein's span model, CKY, training and scoring."""
