"""One judge many times over, on the machines of a Ray cluster."""
