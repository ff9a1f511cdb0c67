"""The paper's experiments, each one command: ``cavity reproduce NAME``."""
