"""README and the pages of docs/: every snippet is run as it is written, or marked with the reason why not."""
