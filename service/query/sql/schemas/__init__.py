"""What stands before the name of a table: databases, histories, and the schemas that list them.

Reading order:

    named.py               the schemas of a catalog, and `savepointdb`, which lists its jobs and checkpoints; `information_schema`; CREATE
    listings.py            which databases a query of such tables asks for
"""
