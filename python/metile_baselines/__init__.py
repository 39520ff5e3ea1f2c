"""Workers for baselines: other libraries, unmodified, beside metile."""
