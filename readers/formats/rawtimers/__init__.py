"""Timers in raw keyed state."""
