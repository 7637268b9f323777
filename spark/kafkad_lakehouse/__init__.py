"""Topics as tables, beside the broker: the broker imports nothing of this package (decision 102).

export/   topics to tables, from segment files or with kafkad's client, in local processes or in Spark
cli/      `kafkad export`
source/   the data source for Spark, `spark.read.format("kafkad")`

The package imports kafkad's client, the parts of its core that read logs, and the parts of its command line that all
commands share. The scripts beside the package are jobs for spark-submit.
"""
