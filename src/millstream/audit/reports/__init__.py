"""Reports of counts: what is in one, how it is written, and who sends it."""
