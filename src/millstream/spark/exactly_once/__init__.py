"""Writing exactly once: transactions that tasks open and the driver ends."""
