"""What a log asks of batches and records before it keeps them, and how it finds one by its time."""
