"""What every HTTP request passes, whatever it asks for: limits, connections, errors."""
