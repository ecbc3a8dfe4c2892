"""The page at `/`, where people write queries.

    router.py   `/`, `/static/…` and links (`/db/…`, `/saved/…`) that a browser opens: the page, with headers that isolate it

`make web` builds the files in `static` from the sources in `web/` of the project; manifest.json lists the sources. The page
uses the same HTTP calls as every other client.
"""
