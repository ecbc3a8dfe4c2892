-- Statements that DuckDB answers and Spark would answer differently, or not at all: refused with NOT_ON_SPARK.

SELECT any_value(key) FROM w.aggregate__count

SELECT first(key) FROM w.aggregate__count

SELECT list(key) FROM w.aggregate__count

SELECT approx_count_distinct(key) FROM w.aggregate__count

SELECT regexp_matches(key, '^key') FROM w.aggregate__count

SELECT key FROM w.aggregate__count WHERE key ILIKE 'KEY%'

SELECT key FROM w.aggregate__count WHERE key LIKE '%\_1'

SELECT strftime(TIMESTAMP '2024-01-01', '%Y')

SELECT value::FLOAT::VARCHAR FROM w.aggregate__count

SELECT (value / 3)::VARCHAR FROM w.aggregate__count

SELECT (value / 3)::DECIMAL(10, 2) FROM w.aggregate__count

SELECT ln(value), pow(value, 2) FROM w.aggregate__count

SELECT random() FROM w.aggregate__count

SELECT now()

SELECT hash(key) FROM w.aggregate__count

SELECT trim(key) FROM w.aggregate__count

SELECT reverse(key) FROM w.aggregate__count

SELECT substr(key, 0, 2) FROM w.aggregate__count

SELECT TIMESTAMP '2024-01-02' - TIMESTAMP '2024-01-01'

SELECT unnest([1, 2])

SELECT * FROM range(3)

SELECT * FROM (VALUES (1), (2)) v(a)

WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n

SELECT DISTINCT ON (value) key FROM w.aggregate__count ORDER BY value, key

SELECT * FROM w.aggregate__count USING SAMPLE 3

SELECT * FROM w.aggregate__count a ASOF JOIN w.aggregate__count b ON a.value >= b.value

SELECT * FROM w.aggregate__count a POSITIONAL JOIN w.aggregate__count b

SELECT value FROM e.types__v_map WHERE value = value

SELECT value, count(*) FROM e.types__v_map GROUP BY value

SELECT * FROM e.types__v_tuple3 ORDER BY value

SELECT value.f2 = value.f2 FROM e.types__v_tuple3

SELECT max(value) FROM e.types__v_list

SELECT value[1:2] FROM e.types__v_list

SELECT 1.5::DECIMAL(3, 1) = key FROM w.aggregate__count WHERE false

SELECT 5.5 // 2

SELECT 5.5 % 2

SELECT 1.5::DECIMAL(38, 10) * 2.5::DECIMAL(38, 10)

SELECT count(*) FROM w.aggregate__count LIMIT 10 PERCENT

SELECT sum(value) OVER (ORDER BY value RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) FROM w.aggregate__count

SELECT string_agg(key, ',' ORDER BY key) FROM w.aggregate__count

SELECT quantile_cont(value, 0.3) FROM w.aggregate__count

SELECT value FROM w.aggregate__count UNION ALL BY NAME SELECT 1 AS other

SELECT to_json(value) FROM e.types__v_tuple3

SELECT hash(value) FROM e.types__v_tuple3

SELECT COLUMNS('k.*') FROM w.aggregate__count

SELECT value::VARCHAR FROM e.types__v_local_date

SELECT lower('İstanbul Σ')

SELECT upper('straße')

SELECT list(DISTINCT key) FROM w.aggregate__count

SELECT value % 7 AS rest, avg(value) FROM w.aggregate__count GROUP BY 1 HAVING avg(value) > 1 AND count(*) > 2 ORDER BY sum(value) DESC, rest

SELECT sum(value)::FLOAT FROM w.aggregate__count

SELECT key, (SELECT avg(b.value) FROM w.aggregate__count b WHERE b.value < a.key) FROM w."mod7-no-uid__seen" a

SELECT 'a' || 'b' ^@ 'a' || 'b'

SELECT date_add(DATE '2024-01-31', 1)

SELECT DATE '2024-01-31' + 1 AS g, avg(value * 0.05) FROM w.aggregate__count GROUP BY ALL
