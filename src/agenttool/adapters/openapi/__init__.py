"""OpenAPI services as a source of tools: `kind = "openapi"` in the settings."""
