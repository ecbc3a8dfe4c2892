"""The tables whose rows a room above makes have them in every test, whichever runs first."""

from service.base.catalogtables import name_tables

name_tables()
