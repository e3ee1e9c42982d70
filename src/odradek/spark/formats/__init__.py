"""What values and keys are made of: text, JSON, Avro, Protobuf; each turned into Arrow columns, and each refusal into a reason.

declared.Format   what is known of them before anything is read: name, registry or schema, framing
decoders          a Format and columns -> what decodes a block of values
wire_format       Confluent's framing: a zero, the id of a schema, for Protobuf which message of it
registry          the schemas behind the ids, over HTTP
avro, protobuf    a schema -> columns, and values -> rows
known_files     files that a Protobuf schema imports without a reference
rows              rows as Python has them -> Arrow, each bad one apart
"""
