"""How far to trust a ranking: confidence, agreement with people, curves, calibration, plots."""
