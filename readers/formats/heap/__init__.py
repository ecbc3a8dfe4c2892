"""The native layout of the hashmap backend: its checkpoints and native savepoints."""
