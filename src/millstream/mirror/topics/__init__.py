"""Topics of the target kept in step with those of the source, until they are promoted."""
