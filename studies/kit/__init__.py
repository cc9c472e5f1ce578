"""What all studies share: one runner, presets and published rows as data files."""
