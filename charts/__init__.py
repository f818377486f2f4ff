"""The Helm chart, and in `source` the program that writes its generated files."""
