-- Statements that DuckDB and Spark answer alike. One a paragraph; e is everything, w is wordcount.
-- Rows are compared in order where the statement has an ORDER BY outside, else as a set.

SELECT * FROM w.aggregate__count ORDER BY key

SELECT key, value FROM w.aggregate__count WHERE key = 'key_662'

SELECT key, value FROM w.aggregate__count WHERE key IN ('key_1', 'key_2', 'nothing') ORDER BY key DESC

SELECT count(*), sum(value), min(value), max(value), avg(value) FROM w.aggregate__count

SELECT _key_group, count(*) AS n, sum(value) AS total FROM w.aggregate__count GROUP BY _key_group ORDER BY n DESC, _key_group LIMIT 20

SELECT _subtask, count(*) FILTER (WHERE value > 30) AS many, sum(value) FILTER (WHERE value % 2 = 0) AS even FROM w.aggregate__count GROUP BY ALL ORDER BY ALL

SELECT * FROM w."mod7-no-uid__seen" ORDER BY key

SELECT key, key / 2 AS half, key // 2 AS whole, key % 2 AS rest, -key AS minus, key / 0 AS infinite FROM w."mod7-no-uid__seen" ORDER BY key

SELECT key, value / 7, value // 7, value % 7, value * 3 - 1, value::DOUBLE / 3 FROM w.aggregate__count ORDER BY key LIMIT 50

SELECT avg(key), sum(key), sum(key * 1.5), avg(key * 0.25), sum(key) / count(*) FROM w."mod7-no-uid__seen"

SELECT a.key, a.value, b.value AS other FROM w.aggregate__count a JOIN w.aggregate__count b ON a.key = b.key WHERE a.value > 55 ORDER BY a.key

SELECT a.key, b.key FROM w."mod7-no-uid__seen" a LEFT JOIN w."mod7-no-uid__seen" b ON a.key = b.key + 1 ORDER BY 1, 2

SELECT a.key, b.key FROM w."mod7-no-uid__seen" a FULL JOIN w."mod7-no-uid__seen" b ON a.key = b.key + 3 ORDER BY 1, 2

SELECT key, a.value, b.value FROM w.aggregate__count a JOIN w.aggregate__count b USING (key) ORDER BY key LIMIT 5

SELECT a.key, b.key FROM w."mod7-no-uid__seen" a, w."mod7-no-uid__seen" b WHERE a.key < b.key ORDER BY a.key, b.key

SELECT key FROM w.aggregate__count a WHERE EXISTS (SELECT 1 FROM w."mod7-no-uid__seen" b WHERE b.value > a.value) ORDER BY key

SELECT key FROM w.aggregate__count WHERE value = (SELECT max(value) FROM w.aggregate__count) ORDER BY key

SELECT key FROM w.aggregate__count WHERE value NOT IN (SELECT value FROM w.aggregate__count WHERE value > 20) ORDER BY key

WITH big AS (SELECT key, value FROM w.aggregate__count WHERE value > 40), small(k) AS (SELECT key FROM big WHERE value < 50) SELECT big.key, big.value FROM big JOIN small ON big.key = small.k ORDER BY big.key

SELECT value FROM w.aggregate__count UNION SELECT key FROM w."mod7-no-uid__seen" ORDER BY value

SELECT key FROM w."mod7-no-uid__seen" UNION ALL SELECT value FROM w.aggregate__count WHERE value < 5 ORDER BY 1

SELECT value FROM w.aggregate__count EXCEPT SELECT key FROM w."mod7-no-uid__seen" ORDER BY value

SELECT value FROM w.aggregate__count INTERSECT SELECT value + 1 FROM w.aggregate__count ORDER BY value

SELECT DISTINCT value % 5 AS rest FROM w.aggregate__count ORDER BY rest

SELECT count(DISTINCT value), sum(DISTINCT value), avg(DISTINCT value) FROM w.aggregate__count

SELECT value % 3 AS rest, count(*) AS n FROM w.aggregate__count GROUP BY rest HAVING n > 10 ORDER BY rest

SELECT value % 3 AS a, _subtask AS b, count(*) FROM w.aggregate__count GROUP BY ROLLUP (a, b) ORDER BY a, b

SELECT key, value, row_number() OVER (PARTITION BY _subtask ORDER BY value DESC, key) AS place FROM w.aggregate__count QUALIFY place <= 3 ORDER BY _subtask, place

SELECT key, value, rank() OVER (ORDER BY value) AS r, dense_rank() OVER (ORDER BY value DESC) AS d FROM w.aggregate__count ORDER BY key LIMIT 30

SELECT key, lag(value) OVER (ORDER BY key) AS before, lead(value, 2, 0) OVER (ORDER BY key) AS after FROM w.aggregate__count ORDER BY key LIMIT 30

SELECT key, sum(value) OVER (PARTITION BY _subtask ORDER BY key) AS running, avg(value) OVER (ORDER BY key ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS near FROM w.aggregate__count ORDER BY key LIMIT 30

SELECT key, sum(value) OVER () AS total, count(*) OVER (PARTITION BY _key_group) AS n FROM w.aggregate__count ORDER BY key LIMIT 10

SELECT CASE WHEN value < 10 THEN 'few' WHEN value < 50 THEN 'some' ELSE 'many' END AS size, count(*) FROM w.aggregate__count GROUP BY 1 ORDER BY 1

SELECT CASE value % 4 WHEN 0 THEN 'zero' WHEN 1 THEN NULL ELSE 'more' END AS c, count(*) FROM w.aggregate__count GROUP BY c ORDER BY c

SELECT CASE value % 4 WHEN 1 THEN value END AS c FROM w.aggregate__count ORDER BY c DESC LIMIT 3

SELECT CASE value % 4 WHEN 1 THEN value END AS c, key FROM w.aggregate__count ORDER BY c NULLS FIRST, key LIMIT 8

SELECT coalesce(nullif(value % 4, 1), 100) AS c, count(*) FROM w.aggregate__count GROUP BY c ORDER BY c

SELECT greatest(value, 20, NULL), least(value, 20), ifnull(nullif(value, 20), -1) FROM w.aggregate__count ORDER BY key LIMIT 40

SELECT upper(key), length(key), substr(key, 5), substr(key, 1, 3), left(key, 3), right(key, 2), replace(key, 'key', 'k'), strpos(key, '6') FROM w.aggregate__count ORDER BY key LIMIT 40

SELECT key || '-' || key, concat(key, NULL, value), concat_ws('/', key, NULL, value), md5(key), sha256(key) FROM w.aggregate__count ORDER BY key LIMIT 40

SELECT key FROM w.aggregate__count WHERE key LIKE 'key_9%' OR key LIKE '%_1_' ORDER BY key

SELECT key FROM w.aggregate__count WHERE key NOT LIKE '%1%' AND starts_with(key, 'key_5') AND contains(key, '7') AND NOT ends_with(key, '9') ORDER BY key

SELECT key FROM w.aggregate__count WHERE value BETWEEN 10 AND 12 AND key > 'key_3' AND key <= 'key_7' ORDER BY key

SELECT count(*) FROM w.aggregate__count WHERE namespace IS NULL AND value IS NOT NULL AND (value IS DISTINCT FROM 20) AND NOT (value = 3)

SELECT value::VARCHAR, value::DOUBLE, value::SMALLINT, value::DECIMAL(10, 2), (value / 2)::INT, (value * 0.5)::INT, (value > 5)::INT, value::BOOLEAN FROM w.aggregate__count ORDER BY key LIMIT 60

SELECT substr(key, 5)::INT AS n, try_cast(substr(key, 5) AS BIGINT) AS m FROM w.aggregate__count ORDER BY n

SELECT round(value / 7, 2), round(value / 3), ceil(value / 3), floor(-value / 3), abs(-value), sign(value - 20), sqrt(value), round(value * 0.33, 1) FROM w.aggregate__count ORDER BY key LIMIT 100

SELECT bool_and(value > 0), bool_or(value > 50), count_if(value > 30), median(value), arg_max(value, key), arg_min(key, key) FROM w.aggregate__count

SELECT stddev(value) > 10, var_pop(value) > 100, stddev_pop(value) < stddev_samp(value) FROM w.aggregate__count

SELECT sum(value), avg(value), min(value), count(value), bool_and(value > 1), list(value ORDER BY value), median(value) FROM w.aggregate__count WHERE key = 'nothing'

SELECT value % 10 AS v, list(key ORDER BY key) AS keys FROM w.aggregate__count WHERE value < 8 GROUP BY v ORDER BY v

SELECT value % 10 AS v, list(value ORDER BY key) FILTER (WHERE value > 3) AS found FROM w.aggregate__count WHERE value < 8 GROUP BY v ORDER BY v

SELECT {'k': key, 'v': value} AS pair, [value, value + 1] AS both FROM w.aggregate__count ORDER BY key LIMIT 5

SELECT s.pair.k, s.both[1], s.both[-1], s.both[3], s.both[0], len(s.both), list_contains(s.both, 3) FROM (SELECT {'k': key, 'v': value} AS pair, [value, value + 1] AS both FROM w.aggregate__count) s ORDER BY 1 LIMIT 30

SELECT 1 AS one, 'text' AS t, NULL AS nothing, 2.50 AS d, 1e3 AS e, true AS yes, 12345678901 AS big

SELECT 1 + 1, 7 / 2, 7 // 2, -7 // 2, -7 % 3, 2 * 3.5, 1.25 + 1, 0.1 + 0.2 = 0.3, 1 / 0, -1 / 0, 0 / 0 IS NULL

SELECT 9223372036854775807 / 2, 127::TINYINT::INT + 1, 2.5::INT, 3.5::INT, -2.5::INT, 2.5::DOUBLE::INT, 3.5::DOUBLE::INT, round(2.5), round(-2.5)

SELECT DATE '2024-02-29' + 1, DATE '2024-03-01' - DATE '2024-02-01', DATE '2024-01-31' + INTERVAL 1 MONTH, TIMESTAMP '2024-01-01 10:11:12.5' + INTERVAL 90 MINUTE, TIMESTAMP '2024-01-01 10:11:12' - INTERVAL '1' DAY

SELECT extract(year FROM t), month(t), day(t), extract(hour FROM t), minute(t), second(t), quarter(t), extract(dow FROM t), isodow(t), dayofyear(t), extract(week FROM t), epoch(t), epoch_ms(t) FROM (SELECT TIMESTAMP '2024-02-29 23:59:58.123456' AS t) x

SELECT date_trunc('year', t), date_trunc('quarter', t), date_trunc('month', t), date_trunc('week', t), date_trunc('day', t), date_trunc('hour', t), date_trunc('minute', t), t::DATE, t::VARCHAR, date_diff('day', DATE '2024-01-01', t::DATE) FROM (SELECT TIMESTAMP '2024-02-29 23:59:58.123456' AS t) x

SELECT * FROM e.types__v_boolean ORDER BY key

SELECT * FROM e.types__v_byte ORDER BY key

SELECT * FROM e.types__v_short ORDER BY key

SELECT * FROM e.types__v_int ORDER BY key

SELECT * FROM e.types__v_long ORDER BY key

SELECT * FROM e.types__v_float ORDER BY value, key

SELECT * FROM e.types__v_double ORDER BY value DESC, key

SELECT key, value + 1, value * 2, value / 2, -value, value = value, value > 1, isnan(value) FROM e.types__v_double ORDER BY key

SELECT key, value + 1, value / 2, value = 0.1, value < 1.5, value::DOUBLE FROM e.types__v_float ORDER BY key

SELECT min(value), max(value), count(DISTINCT value) FROM e.types__v_double

SELECT value, count(*) FROM e.types__v_float GROUP BY value ORDER BY value

SELECT sum(value), avg(value), min(value), max(value) FROM e.types__v_long

SELECT sum(value), sum(value) + 1, sum(value)::VARCHAR FROM e.types__v_byte

SELECT value::INT + 1 FROM e.types__v_byte ORDER BY 1

SELECT * FROM e.types__v_char ORDER BY key

SELECT *, length(value) FROM e.types__v_string ORDER BY value, key

SELECT * FROM e.types__v_big_decimal ORDER BY key

SELECT * FROM e.types__v_big_integer ORDER BY key

SELECT value, count(*) FROM e.types__v_enum GROUP BY value ORDER BY value

SELECT key, value, extract(year FROM value) FROM e.types__v_local_date ORDER BY value

SELECT * FROM e.types__v_local_time ORDER BY value

SELECT min(value), max(value), count(DISTINCT value) FROM e.types__v_local_time

SELECT * FROM e.types__v_local_date_time ORDER BY value

SELECT key, value, date_trunc('hour', value), extract(year FROM value), value::DATE FROM e.types__v_instant ORDER BY value

SELECT key FROM e.types__v_instant WHERE value > '2000-01-01 00:00:00' AND value < TIMESTAMP '2100-01-01' ORDER BY key

SELECT * FROM e.types__v_bytes ORDER BY value

SELECT *, len(value), value[1], value[-1] FROM e.types__v_long_array ORDER BY key

SELECT * FROM e.types__v_string_array ORDER BY key

SELECT key, value, value[1].f0 AS f, value[2] AS second FROM e.types__v_tuple2_array ORDER BY key

SELECT key, value, value.f0, value.f2.f1, value.F1 FROM e.types__v_tuple3 ORDER BY value.f0

SELECT * FROM e.types__v_row ORDER BY key

SELECT key, value, value.left, value.right FROM e.types__v_either ORDER BY key

SELECT *, list_contains(value, 1) FROM e.types__v_list ORDER BY key

SELECT key, value, map_keys(value), value['a'], value['nothing'] FROM e.types__v_map ORDER BY key

SELECT * FROM e.types__v_pojo ORDER BY key

SELECT key, value.name, value.address.city, value.scores[1], value.since, value.age FROM e.types__v_pojo ORDER BY value.name, key

SELECT value.age, count(*), max(value.since) FROM e.types__v_pojo GROUP BY value.age ORDER BY 1

SELECT * FROM e.types__v_pojo_subclasses ORDER BY key

SELECT value, count(*) FROM e.types__v_pojo_subclasses GROUP BY value

SELECT state_name, count(*), count(value), min(key), max(value) FROM e.types GROUP BY state_name ORDER BY state_name

SELECT * FROM e.types WHERE state_name = 'v_string' ORDER BY key

SELECT state_name, key, value, map_key, list_index FROM e.kinds ORDER BY ALL

SELECT key, list(value ORDER BY list_index) AS list FROM e.kinds__list GROUP BY key ORDER BY key

SELECT key, map_key, value FROM e.kinds__map ORDER BY key, map_key

SELECT key, value.f0 / value.f1 AS average FROM e.kinds__aggregating ORDER BY key

SELECT key, value, ttl_timestamp, date_trunc('day', ttl_timestamp) FROM e."kinds__ttl-value" ORDER BY key

SELECT key, namespace, namespace.start, namespace."end", value FROM e."tumbling-window__window-contents" ORDER BY key, namespace.start

SELECT namespace.start + INTERVAL 1 HOUR AS t, sum(value.f0) FROM e."tumbling-window__window-contents" GROUP BY t ORDER BY t

SELECT * FROM e.broadcast__rules ORDER BY map_key

SELECT value.f0, value.f1, list_index, _subtask FROM e."events__last-numbers" ORDER BY ALL

SELECT timer_service, time_domain, count(*), min(timestamp), max(timestamp) FROM e.timers GROUP BY ALL ORDER BY ALL

SELECT * FROM e.timers ORDER BY operator_id, time_domain, timestamp, key LIMIT 20

SELECT operator_uid, state_name, state_kind, key_type, value_type, decode_status, size_bytes FROM e.StateMeta ORDER BY operator_uid, state_name

SELECT * FROM e.operators ORDER BY ALL

SELECT subtask, count(*), sum(size_bytes) FROM e.files GROUP BY subtask ORDER BY subtask

SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL

SELECT t.key, t.value, c.value FROM e.kinds__value t JOIN e.kinds__reducing c ON t.key = c.key ORDER BY t.key

SELECT k, count(*) FROM (SELECT key AS k FROM e.kinds__value UNION ALL SELECT key FROM e.kinds__list) x GROUP BY k ORDER BY k

SELECT a.n - b.n FROM (SELECT count(*) AS n FROM e.types) a, (SELECT count(*) AS n FROM w.aggregate__count) b

SELECT key, (SELECT max(b.value) FROM w."mod7-no-uid__seen" b WHERE b.key < length(a.key)) AS m FROM w.aggregate__count a ORDER BY key LIMIT 20

SELECT key, 'it''s a \ "quote" `x`' AS text FROM w."mod7-no-uid__seen" WHERE 'a\b' = 'a\b' ORDER BY key

SELECT count(*) FROM w.aggregate__count WHERE key = 'no\such''key'

SELECT key, TRY_CAST(right(key, 1) || '99999999999' AS INTEGER) AS none, TRY_CAST(right(key, 1) || '9' AS INTEGER) AS some FROM w.aggregate__count ORDER BY key LIMIT 20

SELECT count_if(value > 0), count_if(NULL::BOOLEAN), count(*), bool_and(value > 0) FROM w.aggregate__count WHERE key = 'nothing'

SELECT count_if(value > 0), median(value) FROM w.aggregate__count WHERE key = 'nothing'

SELECT _subtask, count_if(key > 'key_5') FILTER (WHERE value > 1000) AS none, count_if(value > 30) AS some FROM w.aggregate__count GROUP BY _subtask ORDER BY _subtask

SELECT avg(value) FILTER (WHERE value % 2 = 0), sum(value) + avg(value), max(key) FROM w.aggregate__count a WHERE a.key <> 'key_1' AND a.value IS NOT NULL

SELECT value % 7 AS rest, avg(value) AS a, count(DISTINCT key) AS keys, sum(DISTINCT value) AS s FROM w.aggregate__count GROUP BY 1 HAVING avg(value) > 1 AND count(*) > 2 ORDER BY a DESC, rest

SELECT value % 7 AS rest, avg(value) AS a, count(*) FROM w.aggregate__count GROUP BY 1 HAVING avg(value) > 1 AND count(*) > 2 ORDER BY sum(value) DESC, rest

SELECT _subtask, value % 2 AS odd, count(*), avg(value), min(key) FROM w.aggregate__count GROUP BY CUBE (_subtask, odd) ORDER BY ALL

SELECT DISTINCT value % 5 AS rest, _subtask, 'text' AS t FROM w.aggregate__count WHERE key LIKE '%1%' ORDER BY ALL

SELECT x.rest, sum(x.n), max(x.total) FROM (SELECT value % 4 AS rest, _key_group AS g, count(*) AS n, sum(value) AS total FROM w.aggregate__count GROUP BY ALL) x GROUP BY x.rest ORDER BY x.rest

WITH a AS (SELECT value % 4 AS r, sum(value) AS total FROM w.aggregate__count GROUP BY r), b AS (SELECT key % 4 AS r, count(*) AS n FROM w."mod7-no-uid__seen" GROUP BY r) SELECT a.r, a.total, b.n FROM a LEFT JOIN b ON a.r = b.r ORDER BY a.r

SELECT count(*), sum(value), avg(value) FROM w.aggregate__count WHERE value = (SELECT max(value) FROM w.aggregate__count)

SELECT key, (SELECT count(*) FROM w."mod7-no-uid__seen" b WHERE b.value > 3) AS n FROM w.aggregate__count GROUP BY key ORDER BY key LIMIT 5

SELECT value.f0 AS f, count(*), min(value.f2.f1) FROM e.types__v_tuple3 GROUP BY value.f0 ORDER BY f

SELECT value[1] AS first, count(*) FROM e.types__v_long_array GROUP BY value[1] ORDER BY first

SELECT value, count(*) FROM e.types__v_list GROUP BY value

SELECT max(value), min(value) FROM e.types__v_instant WHERE value > TIMESTAMP '1970-01-01'

SELECT date_trunc('year', value) AS y, count(*), max(value) FROM e.types__v_local_date_time GROUP BY y ORDER BY y

SELECT max(ttl_timestamp), count(value) FROM e."kinds__ttl-value"

SELECT value > 0 AS positive, sum(value), avg(value), min(value) FROM e.types__v_double WHERE NOT isnan(value) AND value < 1e300 AND value > -1e300 GROUP BY ALL ORDER BY ALL

SELECT value AS v, count(*) FROM e.types__v_double GROUP BY value ORDER BY v

SELECT 1 AS one, count(*) AS n, 'a' AS t FROM w.aggregate__count GROUP BY ALL

SELECT count(*) AS n, sum(value) AS s FROM w.aggregate__count HAVING count(*) > 100000

SELECT sum(value) / 7, sum(value) % 7, -sum(value), avg(value) * 2, count(*) + max(value) FROM w.aggregate__count

SELECT 'all' AS what, count(*) AS n FROM w.aggregate__count
UNION ALL SELECT 'greatest', max(value) FROM w.aggregate__count WHERE value > 100
UNION ALL SELECT 'none', sum(value) FROM w.aggregate__count WHERE value < 0
UNION ALL SELECT 'operators', count(*) FROM w.operators

SELECT (SELECT count_if(value > 100) FROM w.aggregate__count) AS many, count(*), min(state_name) FROM w.StateMeta

SELECT _key_group, count(*) AS n, avg(value) AS a FROM w.aggregate__count GROUP BY ALL HAVING n > 5 ORDER BY n DESC, _key_group LIMIT 7

SELECT n, s FROM (SELECT count(*) AS n, sum(value) AS s, bool_or(value > 5) AS b FROM w.aggregate__count) WHERE b

WITH c AS (SELECT count(DISTINCT _subtask) AS n, min(key) AS k FROM w.aggregate__count) SELECT n, upper(k) FROM c

SELECT key, value FROM e.types__v_pojo WHERE key <> 'key_1' ORDER BY key

SELECT key, rank() OVER (ORDER BY value DESC, key) AS r FROM w.aggregate__count WHERE value > 50 AND key LIKE 'key_1%' ORDER BY r LIMIT 20

SELECT _key_group, count(*) AS n, sum(value) AS s, max(key) FROM w.aggregate__count WHERE value < -5 GROUP BY ALL
UNION ALL SELECT _subtask, count(*), sum(value), min(key) FROM w.aggregate__count WHERE key = 'key_662' GROUP BY ALL

SELECT value % 7 AS rest, avg(-value * 100000007000003), avg(value * 100000007000003), sum(-value * 100000007000003) / 3, sum(-value * 100000007000003)::DOUBLE, sqrt(sum(value * 100000007000003)) FROM w.aggregate__count GROUP BY 1 ORDER BY 1

SELECT _key_group, avg(-value * 100000007000003), sum(value * 100000007000003) / 7, min(value * 100000007000003) FROM w.aggregate__count GROUP BY ALL

SELECT avg(value * 0.1), avg((value % 90 * 0.1)::DECIMAL(4, 1)), avg(-value * 12345678901.37), sum(-value * 0.7) / 3 FROM w.aggregate__count

SELECT value % 3 AS rest, avg(value * 0.1), avg(-value * 12345678901.37), avg(DISTINCT value * 0.1), sum(value * 0.7)::DOUBLE FROM w.aggregate__count GROUP BY 1

SELECT key, ((-value)::HUGEINT * 100000007000003 * 100003)::DOUBLE, (value::HUGEINT * 100000007000003 * 1000003) / 7, sqrt(value::HUGEINT * 100000007000003 * 1000003), ceil(-value::HUGEINT * 100000007000003) FROM w.aggregate__count

SELECT key, avg(-value * 100000007000003) OVER (PARTITION BY value % 5 ORDER BY key) AS a, avg((value % 90 * 0.1)::DECIMAL(4, 1)) OVER (PARTITION BY value % 5 ORDER BY key) AS d FROM w.aggregate__count ORDER BY key

SELECT value % 3 AS rest, avg((value % 90 * 0.1)::DECIMAL(4, 1)) AS narrow, avg((value % 90)::SMALLINT), avg((value % 90)::TINYINT) FILTER (WHERE value % 2 = 0), avg(value * 0.7) FILTER (WHERE value % 2 = 0), avg(value::DECIMAL(18, 9)) FROM w.aggregate__count GROUP BY ROLLUP (value % 3) HAVING avg(value * 0.1) > 0 ORDER BY ALL

SELECT avg(value * 0.7) FILTER (WHERE value % 2 = 0), avg(-value * 100000007000003) FILTER (WHERE value % 2 = 0), avg(DISTINCT value * 0.1), avg(value * 0.1) FILTER (WHERE key = 'nothing') FROM w.aggregate__count

SELECT _key_group, avg(value * 0.1) AS a, avg(value) FROM w.aggregate__count GROUP BY ALL HAVING a > 1 ORDER BY a, _key_group

SELECT key, value FROM w.aggregate__count WHERE value > (SELECT avg(value * 0.7) * 2 FROM w.aggregate__count) ORDER BY key

SELECT value % 7 AS rest, avg(-value * 100000007000003), avg(value * 0.7), avg(value * 0.1) FROM w.aggregate__count GROUP BY 1 HAVING sum(-value * 100000007000003) < 0

SELECT value % 7 AS rest, avg(-value * 100000007000003), avg(value * 0.7) FROM w.aggregate__count GROUP BY 1 ORDER BY count(value * 0.7), rest

SELECT value % 7 AS rest, avg(-value * 100000007000003), count(*), avg(value * 0.7) FILTER (WHERE value > 9), sum(value * 0.7) FROM w.aggregate__count GROUP BY 1 ORDER BY 1

SELECT value > 0 AS positive, avg(value), avg(value::FLOAT), count(*) FROM e.types__v_double WHERE NOT isnan(value) AND value < 1e3 AND value > -1e3 GROUP BY ALL ORDER BY ALL

SELECT 'all' AS g, avg(value * 0.7), avg(-value * 100000007000003) FROM w.aggregate__count GROUP BY ALL

SELECT count(*) FROM w.aggregate__count WHERE (value::HUGEINT * 100000007000003 * 1000003)::DOUBLE / 3 > 1e15 AND -value::HUGEINT * 100000007000003 < -1e15

SELECT INTEGER '007'::VARCHAR || key, TIMESTAMP '2020-06-01 01:02:03'::DATE, DATE '2024-01-31'::TIMESTAMP FROM w.aggregate__count ORDER BY key

SELECT CASE WHEN NULL THEN 1 ELSE 2 END AS a, CASE WHEN NULL THEN 3 END AS b, CASE 1 WHEN NULL THEN 6 ELSE 7 END AS d

SELECT key, CASE WHEN NULL THEN key ELSE 'none' END AS a, NULL AND value > 2 AS b, NULL OR value > 2 AS c, NOT NULL AS d FROM w.aggregate__count

SELECT a.key, b.key FROM w."mod7-no-uid__seen" a JOIN w."mod7-no-uid__seen" b ON NULL

SELECT a.key, b.key FROM w."mod7-no-uid__seen" a LEFT JOIN w."mod7-no-uid__seen" b ON NULL ORDER BY a.key

SELECT count(*) FILTER (WHERE NULL) AS n, count(*) FROM w.aggregate__count HAVING NULL OR count(*) > 1

SELECT epoch_ms(t), epoch(t), epoch(t::DATE), extract(epoch FROM t) FROM (SELECT TIMESTAMP '1969-12-31 23:59:59.999999' AS t) x

SELECT epoch_ms(t), epoch(t), extract(second FROM t), extract(year FROM t), date_trunc('second', t) FROM (SELECT TIMESTAMP '1969-12-31 23:59:58.0005' AS t) x

SELECT epoch(value), value + INTERVAL 1 MONTH, value::TIMESTAMP, value::DATE, date_trunc('second', value), date_diff('day', value, TIMESTAMP '1970-01-01') FROM e.types__v_instant ORDER BY value

SELECT key, round(x), round(x, 1), floor(x), ceil(x), round(-x), floor(-x), ceil(-x), floor(x * 1e300), round(x / 0) FROM (SELECT key, key / 20 - 0.15::DOUBLE AS x FROM w."mod7-no-uid__seen") t ORDER BY key

SELECT round(x), floor(x), ceil(x), round(-x), floor(-x), ceil(-x) FROM (SELECT 0::DOUBLE AS x) t
