"""Addresses of rows that any program can read.

addresses.py  GET /db/…: databases, tables, keys and statements as links
answers.py    the rows of a link, with an ETag and its headers
"""
