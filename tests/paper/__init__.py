"""The claims of the 2011 paper, one test each."""
