"""From a corpus to a finished tree cache: shards, workers, the driver that lists what is done."""
