"""Where the bytes of a savepoint are, and how they are opened: local files and object stores."""
