"""Results as a picture that a browser shows."""
