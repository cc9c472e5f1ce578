"""Trees as data: integer arrays, binarisation, brackets, drawings, agreement."""
