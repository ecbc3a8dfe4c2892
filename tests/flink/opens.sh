# Sourced: sets `opens`, the packages of the JDK that Flink's serializers look into.
opens=
for package in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.math java.text java.time java.util java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks; do
    opens="$opens --add-opens=java.base/$package=ALL-UNNAMED"
done
