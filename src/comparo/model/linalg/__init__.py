"""The comparison graph and its Laplacian: solving and spectra."""
