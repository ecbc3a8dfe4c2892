"""Channel state: the records that were in flight when an unaligned checkpoint was taken."""
