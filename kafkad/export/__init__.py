"""Topics into tables: what `kafkad export`, its Spark job and the Spark data source do (decisions 060 to 062).

A range is offsets of one partition. `ranges` says which are exported, `reading` brings their records as Arrow batches
from segment files or from a broker, `task` writes them into files, and `sinks` makes them part of the table in one
commit, which also says up to where the table goes. Nothing here needs Java; `engines` runs tasks here or in Spark.
"""
