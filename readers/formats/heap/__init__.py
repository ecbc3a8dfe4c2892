"""The native layout of the hashmap backend: its checkpoints and native savepoints.

layout.py   the bytes of a key group; finds the entries of its states
entries.py  finds the entries of one state window by window, and cuts large lists and maps
gaps.py     finds the end of a state whose values have no known end
maps.py     the layout of Flink 1.2, by namespaces
lockstep.py walks two key groups in step, and finds the entries that they do not share
source.py   the states of a handle
"""
