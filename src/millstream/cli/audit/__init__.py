"""`millstream audit`: what was counted, and whether anything is missing."""
