"""The page at `/`: where people ask.

    router.py  `/` and `/static/…`, with the headers that keep the page to itself
    assets.py  the built files, from memory
    static/    what `make web` builds from the sources in `web/` of the project; manifest.json says of which

The page asks the service over the same HTTP as everybody else.
"""
