# make run      a broker on 127.0.0.1:9092 with its data in data/ (PORT=… DATA=… change that)
# make cluster  a ZooKeeper and three brokers on 127.0.0.1:9092 and the ports after it, in data/cluster/ (BROKERS=… PORT=…)
# make venv     only the virtual environment that it runs in
# make native   compiles most modules where they are; what runs from then on is compiled, until a module is changed
# make test     every test, through tox (ENVS=unit,daemon,… chooses), with the tools they need
# make test-long  the stages with randomized tests, each for hours, with the long amounts of tests/amounts.py
#               (ENVS=… chooses, KAFKAD_TEST_AMOUNTS="cluster_stories=50000" replaces single amounts)
# make environment  only the virtual environment of all tests, .tox/tests
# make deb      kafkad_VERSION_amd64.deb for Debian 12
# make dist     the wheel and the source distribution in dist/
# make bench-cluster  the same of three brokers each, replicated writes and kills (BENCH="--quick --kinds kafkad")
# make bench    kafkad and Apache Kafka in turn on the same work (BENCH="--quick --rows start idle" chooses;
#               only by name: lake-… and compact-…, one for each kind of records and batches)

VENV ?= .venv
PORT ?= 9092
DATA ?= $(CURDIR)/data
# All of these use one virtual environment, in which tox itself is installed, too.
TESTS = .tox/tests
ENVS ?= types,lint,unit,daemon,chaos,compat,spark,package
BENCH ?=
BROKERS ?= 3
ZOOKEEPER_PORT ?= 2181

.PHONY: run cluster venv native environment test test-long deb dist bench bench-cluster

# exec: the broker is what the terminal's Ctrl-C and make's own signals reach.
run: $(VENV)/installed
	@exec $(VENV)/bin/python -m kafkad start etc/server.properties \
		--override listeners=PLAINTEXT://127.0.0.1:$(PORT) --override "log.dirs=$(DATA)"

cluster: $(VENV)/installed
	@packaging/checkout/tools.sh cluster
	@exec $(VENV)/bin/python packaging/checkout/cluster.py --brokers $(BROKERS) --port $(PORT) \
		--zookeeper-port $(ZOOKEEPER_PORT) --data "$(DATA)/cluster"

venv: $(VENV)/installed

$(VENV)/installed: setup.cfg pyproject.toml packaging/checkout/venv.sh
	@packaging/checkout/venv.sh $(VENV)
	@touch $@

native: $(VENV)/native-installed
	@packaging/checkout/tools.sh native
	@PYTHON=$(VENV)/bin/python packaging/native/compile.sh

$(VENV)/native-installed: $(VENV)/installed packaging/native/requirements.txt
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check setuptools -r packaging/native/requirements.txt
	@touch $@

test: environment
	@packaging/checkout/tools.sh $(ENVS)
	@$(TESTS)/bin/python -m tox run -e $(ENVS)

test-long: ENVS = interpreted-unit,daemon,chaos,spark
test-long: override export KAFKAD_TEST_AMOUNTS := long $(KAFKAD_TEST_AMOUNTS)
test-long: test

environment: $(TESTS)/installed

# With the packages that the Debian package carries: what is compiled with their types is the same there.
$(TESTS)/installed: setup.cfg pyproject.toml packaging/checkout/venv.sh packaging/native/requirements.txt \
		packaging/debian/requirements.lock
	@mkdir -p .tox
	@sed 's/ --hash=.*//' packaging/debian/requirements.lock >.tox/constraints.txt
	@packaging/checkout/venv.sh $(TESTS) --no-compile --constraint .tox/constraints.txt \
		--editable '.[test,spark]' -r packaging/native/requirements.txt
	@touch $@

deb:
	@packaging/debian/build.sh

dist: $(VENV)/installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check build
	@$(VENV)/bin/python -m build --outdir dist .

bench: $(VENV)/installed
	@$(VENV)/bin/python -m bench $(BENCH)

bench-cluster: $(VENV)/installed
	@packaging/checkout/tools.sh cluster
	@$(VENV)/bin/python -m bench.cluster $(BENCH)
