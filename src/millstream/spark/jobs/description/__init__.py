"""What jobs say before Spark starts: their files, settings and topics, checked."""
