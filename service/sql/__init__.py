"""SQL text → a `Plan`: parsed, checked against the allow-list, resolved against the catalog."""
