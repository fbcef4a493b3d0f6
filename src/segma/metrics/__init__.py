"""Numbers about a trained model."""
