"""Rankers: each takes tools and queries, and gives the places of the ten tools it would show for each query."""
