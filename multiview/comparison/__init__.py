"""What two sentences have in common and what tells them apart: facts, numbers, reasons and subtrees."""
