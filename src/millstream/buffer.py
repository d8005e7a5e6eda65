"""What holds bytes that are only read: received frames, record batches, the contents of files."""

Buffer = bytes | bytearray | memoryview
