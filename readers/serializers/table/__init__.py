"""The serializers of SQL's internal data."""
