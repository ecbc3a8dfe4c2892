#!/bin/sh
# java.sh <flink version> <class> [argument ...]: runs a class of Flink, or of this folder, in this process
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$1
shift
[ -s "$here/target/$version/classpath" ] || "$here/build.sh" "$version" >&2
. "$here/../opens.sh"
# shellcheck disable=SC2086
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC \
    -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG_LEVEL:-warn}" $opens \
    -classpath "$here/target/$version/classes:$(cat "$here/target/$version/classpath")" "$@"
