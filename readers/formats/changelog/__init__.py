"""Changelog checkpoints: a materialised base and the changes since."""
