"""What can be read off a broker, and how it is handed to the process that publishes it."""
