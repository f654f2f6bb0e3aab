"""Search for tools by name or by what they do, among those that a surface reveals."""
