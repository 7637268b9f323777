#!/bin/sh
# Installs the packages that tests and builds of a checkout need in addition to Python packages: by apt-get as root,
# otherwise prints the command.
#
# Usage: tools.sh ENVIRONMENT...      environments of tox, as in `make test ENVS=unit,daemon`; `cluster` for
#                                     `make cluster`, `native` for `make native`, `deb` for `make deb`, and `ci`
set -eu

# For Apache Kafka's own tools and ZooKeeper, with which many tests compare.
java='default-jdk-headless maven zookeeper'

log() { echo "kafkad: $*" >&2; }

packages_of() {
    case $1 in
        types | lint) ;;
        cluster) echo "default-jre-headless zookeeper" ;;
        native) echo "gcc libc6-dev libpython3-dev" ;;
        # The checkout, wheels and packages are compiled from the same sources.
        ci) echo "ccache" ;;
        interpreted-unit) echo "git $java" ;;
        interpreted-compat) echo "kcat $java" ;;
        unit | compat) packages_of "interpreted-$1" && packages_of native ;;
        daemon) echo "kcat make openssl procps $java" ;;
        compiled-daemon) packages_of daemon && packages_of native ;;
        chaos) echo "iproute2 nftables procps $java" ;;
        spark) echo "$java" ;;
        deb)
            echo "build-essential debhelper dh-python fakeroot po-debconf python3 python3-dev python3-pip" \
                "python3-setuptools python3-wheel"
            ;;
        package)
            packages_of deb
            echo "buildah git iproute2 kcat lintian make mmdebstrap pipx procps python3-venv systemd-container" \
                "default-jre-headless zookeeper"
            ;;
        *)
            log "unknown tests $1: expected types, lint, unit, daemon, chaos, compat, spark, package," \
                "interpreted-unit, interpreted-compat or compiled-daemon"
            return 1
            ;;
    esac
}

is_installed() { dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q 'ok installed'; }

install() {
    log "installing $* with apt-get"
    if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; then
        apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    fi
}

missing=
for environment in $(echo "$*" | tr ',' ' '); do
    required=$(packages_of "$environment")
    for package in $required; do
        case " $missing " in *" $package "*) continue ;; esac
        is_installed "$package" || missing="$missing $package"
    done
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # The variable has one package name for each word.
    # shellcheck disable=SC2086
    install $missing
else
    log "missing packages; install them with: sudo apt-get install --no-install-recommends$missing"
    exit 1
fi
