"""What every machine must agree on, recorded: see `record`."""
