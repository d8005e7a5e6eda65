"""Batches of partitions copied as they are: fetched from the source, appended to the target, with the progress committed."""
