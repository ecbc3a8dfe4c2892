#!/bin/sh
# Compiles the classes of this folder to tests/data/classes/jobs.jar, and writes objects of them with the KryoSerializer of
# real Flink: tests/data/vectors/kryo-objects.jsonl.gz, a line a value.
#
#   generate.sh
#
# Needs Java 17, and what ../restore/build.sh has built. ../restore/README.md
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=$here/../../data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
classpath() { cat "$here/../restore/target/$1/classpath"; }

javac -nowarn -Xlint:none -g:none --release 17 -classpath "$(classpath 1.20.3)" -d "$work/jobs" \
    "$here"/acme/*.java "$here"/corpus/*.java "$here"/../src/main/java/savepointdb/fixtures/Pojos.java
(cd "$work/jobs" && find . -type f -exec touch -d 2020-01-01T00:00:00Z {} + && find . -name '*.class' | sort | zip -q -X ../jobs.jar -@)
mkdir -p "$data/classes"
cp "$work/jobs.jar" "$data/classes/jobs.jar"

opens=
for package in java.lang java.lang.reflect java.time java.util java.util.concurrent java.util.concurrent.atomic; do
    opens="$opens --add-opens=java.base/$package=ALL-UNNAMED"
done
written() { # flink version, classes with a method all()
    version=$1
    shift
    javac -nowarn -classpath "$(classpath "$version"):$work/jobs" -d "$work/$version" "$here/Write.java"
    # shellcheck disable=SC2086
    java $opens -classpath "$work/$version:$work/jobs:$(classpath "$version")" Write "$version" "$@"
}
{
    written 1.20.3 acme.Shapes acme.Library
    written 2.3.0 acme.Shapes acme.Library acme.Records
} 2> "$work/log" | gzip -9 -n > "$data/vectors/kryo-objects.jsonl.gz"
grep -v SLF4J "$work/log" >&2 || true
