"""One partition on disk: segments, indexes, validation, producer state, leader epochs, recovery, retention."""
