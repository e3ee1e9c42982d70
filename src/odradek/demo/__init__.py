"""`odradek demo`: real files to a replicated topic to a table, a leader killed on the way, and proof.

`inputs` reads the files, `collector` produces, `watch` looks at the cluster, `elections` reads who was elected and
why, `table_job` runs the Spark job, `proof` compares, `report` and `page` show; `run` puts them in order.
"""
