"""The scan itself in place of an engine: short statements (`service.query.sql.short`) need no other.

work.py       what travels to the process that reads: a scan, and the statement over it
execution.py  ScanEngine: reads the scan, and keeps the rows that meet the conditions
"""
