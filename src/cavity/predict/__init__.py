"""Predictions of fitted mixtures: densities, imputation, leave-one-out, predictive checks."""
