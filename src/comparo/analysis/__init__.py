"""How reliable a ranking is: confidence, agreement with people, curves, calibration, plots."""
