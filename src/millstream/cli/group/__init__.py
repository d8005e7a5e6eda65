"""`millstream group`: `command` lists and deletes, `describe` and `seek` have files of their own."""
