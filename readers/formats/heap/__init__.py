"""The native layout of the hashmap backend: its checkpoints and native savepoints.

layout.py   the bytes of a key group; finds the entries of its states
entries.py  finds the entries of one state window by window, and the end of one whose values have no known end
lockstep.py walks two key groups in step, and finds the entries that they do not share
source.py   the states of a handle; the layout of Flink 1.2
"""
