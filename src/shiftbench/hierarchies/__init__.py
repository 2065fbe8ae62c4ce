"""Class hierarchies: reading and editing them, and cutting them into superclasses with source and target subclasses."""
