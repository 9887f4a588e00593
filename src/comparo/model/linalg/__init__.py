"""The comparison graph and its Laplacian: solving, determinants and spectra."""
