"""What a broker does with its logs beside reading and writing them: flushes, retention, compaction, long work in turns."""
