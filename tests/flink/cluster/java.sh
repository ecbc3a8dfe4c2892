#!/bin/sh
# java.sh <flink version> <class> [argument ...]: runs a class of Flink, or of this folder, in this process
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$1
shift
[ -s "$here/target/$version/classpath" ] || "$here/build.sh" "$version" >&2
opens=
for package in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.math java.text java.time java.util java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks; do
    opens="$opens --add-opens=java.base/$package=ALL-UNNAMED"
done
# shellcheck disable=SC2086
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC \
    -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG_LEVEL:-warn}" $opens \
    -classpath "$here/target/$version/classes:$(cat "$here/target/$version/classpath")" "$@"
