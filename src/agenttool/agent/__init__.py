"""What an agent uses: surfaces, sources, built-in tools, batches and nested calls."""
