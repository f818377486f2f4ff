"""Settings: layers of files, environment and flags become one frozen, typed value."""
