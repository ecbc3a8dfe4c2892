"""The life of a query: started, found by its id, limited, cancelled, answered, remembered."""
