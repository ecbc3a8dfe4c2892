"""This process: its memory, and Arrow without pandas."""
