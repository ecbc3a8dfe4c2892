"""Timers in raw keyed state.

layout.py  the timer services of a key group, and their timers
source.py  the timers of a handle, one state per service and time domain
"""
