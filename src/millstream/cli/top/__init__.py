"""`millstream top`: a live view of a cluster. `command` draws it, the others read what it shows."""
