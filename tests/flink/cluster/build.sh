#!/bin/sh
# build.sh <flink version>: compiles the job and writes target/<version>/classpath
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${1:?usage: build.sh <flink version>}
mvn --batch-mode --quiet -Dstyle.color=never --file "$here/pom.xml" -Dflink.version="$version" \
    -Dmdep.outputFile="$here/target/$version/classpath" compile dependency:build-classpath
