"""How a mirror goes, and what of it is paused: records of the topic _mirror at the target."""
