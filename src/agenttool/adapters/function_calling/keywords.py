"""Keywords of JSON Schema that say something about a value; all others are notes, or nobody knows them."""

SHAPE = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "const", "format"})
ASSERTIONS = frozenset(
    [
        *("pattern", "minLength", "maxLength", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
        *("prefixItems", "additionalItems", "unevaluatedItems"),
        *("minProperties", "maxProperties", "patternProperties", "propertyNames", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
        *("not", "if", "then", "else", "allOf", "anyOf", "oneOf"),
        *("$ref", "$dynamicRef", "$recursiveRef", "$id"),
    ]
)
