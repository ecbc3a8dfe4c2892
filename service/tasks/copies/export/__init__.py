"""Tables of savepoints → folders of Parquet files, tables of Iceberg, tables of Delta. Nothing is left out in silence.

In: savepoints of a catalog, and where to. Out: files, and a manifest that names each with its size and digest.

Modules, in reading order:

    request.py     ExportRequest: what, where to, how
    selection.py   the tables of a savepoint that are exported, and what of its states they do not show
    files/         splits → Parquet files, here or on executors of Spark
    manifest.py    what an export has written, as JSON; in progress, what it has finished, so that another run goes on
    unchanged.py   the files of the checkpoint before that stay, because no row of their key groups differs
    running.py     the parts of tables, several at a time, here or on executors of Spark
    layouts.py     what a format does with the files of a savepoint: the folders of Parquet; Delta: a version for each checkpoint
    iceberg.py     the same for Iceberg: a snapshot for each checkpoint
    exporting.py   Export: savepoints → an export
"""
