"""The verbs of the `samovar` command, a module each; every one adds itself to the parser by `register`."""
