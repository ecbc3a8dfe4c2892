#!/bin/sh
# Runs the fixture jobs on real Flink and writes <output>/<flink version>/<case>/.
#
#   generate.sh [flink version] [output directory]
#
# Needs Java 17 and Maven. Without a version: both that tests/data/flink holds.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
output=${2:-$here/../data/flink}

if [ $# -eq 0 ]; then
    "$0" 1.20.3
    "$0" 2.3.0
    exit
fi

version=$1
# Flink writes this path into the snapshots: it says nothing about the machine, and is gone afterwards.
work=/tmp/savepointdb-fixtures/$version
if ! mkdir -p "${work%/*}" || ! mkdir "$work"; then
    echo "$work exists: another run is under way, or one was killed; remove it first" >&2
    exit 1
fi
trap 'rm -rf "$work"; rmdir "${work%/*}" 2>/dev/null || true' EXIT
trap 'exit 1' INT TERM

mkdir -p "$output"
output=$(cd "$output" && pwd)

classpath=$here/target/$version/classpath
mvn --batch-mode --quiet -Dstyle.color=never --file "$here/pom.xml" \
    -Dflink.version="$version" -Dflink.major="${version%%.*}" -Dmdep.outputFile="$classpath" \
    compile dependency:build-classpath

# Flink's closure cleaner and serializers look into these packages.
java -Xmx512m -Duser.timezone=UTC -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
    --add-opens=java.base/java.lang=ALL-UNNAMED \
    --add-opens=java.base/java.util=ALL-UNNAMED \
    -classpath "$here/target/$version/classes:$(cat "$classpath")" \
    savepointdb.fixtures.Generate "$output/$version" "$work"
