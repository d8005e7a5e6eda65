"""Topics into tables of a lake, each message a row once."""
