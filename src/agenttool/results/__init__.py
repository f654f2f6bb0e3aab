"""Results: native output mapped once, failures as results, and where the bytes of either go."""
