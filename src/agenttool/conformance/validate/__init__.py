"""Records from anyone: can they be read, do they fit their schemas, do they make sense, alone and together."""
