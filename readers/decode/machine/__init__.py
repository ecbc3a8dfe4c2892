"""The interpreter: walks the entries of a page and fills column arenas."""
