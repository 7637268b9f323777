"""The export of topics to tables, for `kafkad export`, its Spark job and the Spark data source (decisions 060 to 062).

A range is a sequence of offsets of one partition. `ranges` plans the ranges, `reading` reads their records as Arrow
batches from segment files or from a broker, `task` writes the records into files, and `sinks` adds the files to the
table. One commit adds all files of a run and sets the end offsets of the table. Nothing here needs Java; `engines` runs
tasks in local processes or in Spark.
"""
