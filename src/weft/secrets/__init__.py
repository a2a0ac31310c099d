"""Secret values, and their redaction in logs, errors, records and responses."""
