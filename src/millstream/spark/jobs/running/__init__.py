"""What every job needs to run: a session, progress, a checkpoint of its own, and words for what went wrong."""
