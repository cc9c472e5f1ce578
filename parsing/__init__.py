"""Documents to dependency and binarised constituency trees, cached in HDF5."""
