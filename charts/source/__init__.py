"""What is written about the chart's values elsewhere than in values.yaml, and the program that writes it."""
