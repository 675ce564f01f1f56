-- Of the places that a queue has here, those that are in use elsewhere: tasks that moved to another shard
-- while they ran are in that one, beside what its own share lets in.
CREATE TABLE mainspring.lent_places (
    queue text COLLATE "C",
    -- Which shard has them, counted from 0.
    shard smallint,
    count integer NOT NULL,
    -- Who takes places back has to have seen the last change.
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, shard)
);

-- Admission, as before, but for three things. Places that were lent are in use. Limits that change while very
-- many lines wait are looked at anew a part at a time, each with one admission: all of them at once took longer
-- than a statement may, for ever. When a queue has a limit anew, what runs in it counts also while somebody is
-- just writing to its rows: leases are renewed many at a time.
CREATE OR REPLACE FUNCTION mainspring.admit_v1(
    at timestamptz,
    most integer,
    task_types text[],
    queue_names text[],
    offered text[],
    band_priorities smallint[],
    band_youngest float8[],
    band_oldest float8[],
    freed_queues text[],
    freed_groups text[]
) RETURNS TABLE (queue text, admitted integer, since timestamptz, rated text[], wait float8)
LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    lines_at_once constant integer := 5000;
    leaving integer[] := mainspring.leaving_v1();
    gate text;
    g mainspring.gates;
    q mainspring.queues;
    instant timestamptz;
    names text[];
    freed text[];
    queue_burst integer;
    queue_room bigint;
    queue_until timestamptz;
    waiting_now integer;
    running_now integer;
    unmarked integer;
    next_look timestamptz;
    reset integer;
    skipped integer;
    window_full integer;
    stock_groups text[];
    stock_priorities smallint[];
    stock_times timestamptz[];
    stock_mine boolean[];
    line_groups text[];
    line_priorities smallint[];
    line_turns bigint[];
    line_full boolean[];
    line_untils timestamptz[];
    line_short boolean[];
BEGIN
    FOR gate IN
        SELECT s.name FROM mainspring.queues s
        WHERE s.labels IS NULL AND NOT s.paused
            AND (queue_names IS NULL OR s.name = ANY (queue_names))
            AND (s.name = ANY (freed_queues) OR (most > 0 AND (
                EXISTS (
                    SELECT FROM mainspring.gates w
                    WHERE w.queue = s.name AND w.ready_at <= coalesce(at, clock_timestamp()) OFFSET 0)
                OR EXISTS (
                    SELECT FROM mainspring.tasks t
                    WHERE split_part(t.queue, '@', 1) = s.name AND t.status = 'coming'
                        AND t.scheduled_at <= coalesce(at, clock_timestamp()) OFFSET 0)
                OR s.limited)))
        ORDER BY s.name
    LOOP
        IF NOT EXISTS (SELECT FROM mainspring.gates w WHERE w.queue = gate) THEN
            INSERT INTO mainspring.gates (queue) VALUES (gate) ON CONFLICT DO NOTHING;
        END IF;
        IF most > 0 THEN
            SELECT * INTO g FROM mainspring.gates w WHERE w.queue = gate FOR UPDATE SKIP LOCKED;
        ELSE
            SELECT * INTO g FROM mainspring.gates w WHERE w.queue = gate FOR UPDATE;
        END IF;
        IF NOT FOUND THEN
            RETURN QUERY SELECT gate, NULL::integer, NULL::timestamptz, NULL::text[], NULL::float8;
            CONTINUE;
        END IF;
        -- From here on all counts only fall but by what is done here.
        SELECT * INTO q FROM mainspring.queues s WHERE s.name = gate;
        instant := coalesce(at, clock_timestamp());
        freed := ARRAY(
            SELECT DISTINCT f.group_key FROM unnest(freed_queues, freed_groups) AS f (queue, group_key)
            WHERE f.queue = gate ORDER BY f.group_key);
        names := ARRAY[gate];
        IF offered <> '{}' THEN
            names := ARRAY(
                SELECT s.name FROM mainspring.queues s
                WHERE s.base = gate AND (s.labels IS NULL OR s.labels <@ offered));
        END IF;
        IF most > 0 THEN
            SELECT p.admitted, p.since INTO admitted, since
            FROM mainspring.pass_v1(gate, most, instant, leaving) p;
            IF admitted > 0 THEN
                UPDATE mainspring.gates w
                SET ready_at = NULL, changed = false, limited_at = NULL, tokens = NULL, refilled_at = NULL
                WHERE w.queue = gate AND (w.ready_at IS NOT NULL OR w.limited_at IS NOT NULL);
                queue := gate;
                rated := NULL;
                wait := NULL;
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;
        IF most > 0 THEN
            PERFORM mainspring.line_up_v1(gate, q.limited, g.turns, instant, leaving);
            IF g.changed THEN
                UPDATE mainspring.lines l SET until = NULL, looks = 0
                FROM (
                    SELECT n.queue, n.group_key, n.priority FROM mainspring.lines n
                    WHERE n.queue = gate AND n.until IS NOT NULL
                    ORDER BY n.until DESC
                    LIMIT lines_at_once
                ) n
                WHERE l.queue = ANY (ARRAY[n.queue]) AND l.group_key = ANY (ARRAY[n.group_key])
                    AND l.priority = ANY (ARRAY[n.priority]);
                GET DIAGNOSTICS reset = ROW_COUNT;
                g.changed := reset = lines_at_once;
            END IF;
            IF freed <> '{}' THEN
                UPDATE mainspring.lines l SET until = NULL, looks = 0
                WHERE l.queue = gate AND l.group_key = ANY (freed)
                    AND coalesce(l.until, 'infinity') <> 'infinity';
            END IF;
        END IF;

        SELECT array_agg(t.group_key), array_agg(t.priority), array_agg(t.scheduled_at),
            array_agg(t.task_type = ANY (task_types) AND t.queue = ANY (names)
                AND (leaving = '{}' OR mainspring.partition_of(t.id) <> ALL (leaving))),
            count(*)
        INTO stock_groups, stock_priorities, stock_times, stock_mine, waiting_now
        FROM mainspring.tasks t
        WHERE split_part(t.queue, '@', 1) = gate AND t.group_key IS NOT NULL
            AND t.status IN ('pending', 'retrying');
        -- After that was counted: buckets fill up to a time at which at least so many had started.
        instant := coalesce(at, clock_timestamp());
        queue_room := NULL;
        queue_until := NULL;
        unmarked := 0;
        queue_burst := coalesce(q.burst, greatest(1, ceil(q.rate)));
        IF q.limited THEN
            -- What a claim that did not know of the limit started counts as well.
            g.limited_at := coalesce(g.limited_at, instant);
            IF instant < g.limited_at + interval '10 seconds' THEN
                UPDATE mainspring.tasks t SET group_key = ''
                WHERE t.id = ANY (ARRAY(
                    SELECT r.id FROM mainspring.tasks r
                    WHERE r.lease_expires_at > '-infinity' AND r.group_key IS NULL
                        AND split_part(r.queue, '@', 1) = gate
                    FOR UPDATE SKIP LOCKED));
                -- Those that somebody is just writing to count as they are, and are marked later.
                unmarked := (
                    SELECT count(*) FROM mainspring.tasks r
                    WHERE r.lease_expires_at > '-infinity' AND r.group_key IS NULL
                        AND split_part(r.queue, '@', 1) = gate);
                IF unmarked > 0 THEN
                    g.limited_at := instant;
                END IF;
            END IF;
            SELECT count(*) INTO running_now FROM (
                SELECT FROM mainspring.tasks t
                WHERE split_part(t.queue, '@', 1) = gate AND t.group_key IS NOT NULL
                    AND t.status = 'running'
                LIMIT q.concurrency
            ) r WHERE q.concurrency IS NOT NULL;
            -- Counted later than what runs here: what just moves away is then counted twice and not never.
            running_now := running_now + unmarked + (
                SELECT coalesce(sum(p.count), 0)::integer FROM mainspring.lent_places p
                WHERE p.queue = gate);
            g.tokens := mainspring.tokens_v1(
                instant, q.rate, queue_burst, g.tokens, g.waiting, g.refilled_at, waiting_now);
            queue_room := greatest(0, least(
                q.concurrency - running_now - waiting_now, floor(g.tokens + 1e-9)::bigint));
        ELSE
            g.limited_at := NULL;
            g.tokens := NULL;
        END IF;

        skipped := 0;
        LOOP
            WITH stock AS MATERIALIZED (
                SELECT * FROM unnest(stock_groups, stock_priorities, stock_times, stock_mine)
                    AS t (group_key, priority, scheduled_at, is_mine)
            ), bands AS MATERIALIZED (
                SELECT b.band, b.priority, b.high, b.low, g.turns[b.priority + 1] AS served,
                    greatest(0, least(queue_room, most - (
                        SELECT count(*) FROM stock s
                        WHERE s.is_mine AND s.priority = b.priority
                            AND s.scheduled_at > b.low AND s.scheduled_at <= b.high)))::integer AS want
                FROM (
                    SELECT n.band, n.priority, instant - make_interval(secs => n.youngest) AS high,
                        coalesce(instant - make_interval(secs => n.oldest), '-infinity') AS low
                    FROM unnest(band_priorities, band_youngest, band_oldest)
                        WITH ORDINALITY AS n (priority, youngest, oldest, band)
                ) b
            ), shares AS MATERIALIZED (
                -- Of very many lines each gets some at once, or its row would be written for each.
                SELECT b.*, greatest(1, b.want / 25) AS share FROM bands b
            ), looked AS MATERIALIZED (
                SELECT b.band, b.priority, b.high, b.low, b.want, b.share, l.group_key, l.tag,
                    (l.tag - b.served)::float8 AS ahead
                FROM shares b
                CROSS JOIN LATERAL (
                    SELECT n.group_key, greatest(n.turn, b.served) AS tag FROM mainspring.lines n
                    WHERE n.queue = gate AND n.priority = b.priority AND n.until IS NULL
                        AND (leaving = '{}' OR n.group_key = ''
                            OR mainspring.partition_of_group_v1(n.group_key) <> ALL (leaving))
                    ORDER BY n.turn
                    OFFSET skipped
                    LIMIT CASE WHEN b.want > 0 THEN 2 * b.want / b.share + 20 ELSE 0 END
                ) l
                UNION ALL
                SELECT b.band, b.priority, b.high, b.low, b.want, b.share, l.group_key, greatest(l.turn, b.served),
                    greatest(l.turn - b.served, 0)
                FROM (
                    SELECT n.group_key, n.priority, n.turn FROM mainspring.lines n
                    WHERE n.queue = gate AND n.until <= instant
                        AND (leaving = '{}' OR n.group_key = ''
                            OR mainspring.partition_of_group_v1(n.group_key) <> ALL (leaving))
                    ORDER BY n.until
                    LIMIT CASE WHEN most > 0 AND skipped = 0 AND coalesce(queue_room, 1) > 0 THEN 200 ELSE 0 END
                ) l
                JOIN shares b ON b.priority = l.priority
                WHERE b.want > 0
                UNION ALL
                SELECT NULL, n.priority, NULL, NULL, 0, 1, n.group_key, n.turn, 0
                FROM mainspring.lines n
                WHERE most = 0 AND n.queue = gate AND n.group_key = ANY (freed)
            ), states AS MATERIALIZED (
                SELECT k.group_key, r.concurrency, r.rate, r.burst, c.running, c.waiting, b.tokens,
                    least(
                        r.concurrency - c.running - c.waiting, floor(b.tokens + 1e-9)::bigint) AS room
                FROM (SELECT l.group_key FROM looked l UNION SELECT unnest(freed)) k
                LEFT JOIN LATERAL (
                    SELECT true AS found, o.concurrency, o.rate, o.burst FROM mainspring.groups o
                    WHERE o.queue = gate AND o.group_key = k.group_key
                    LIMIT 1
                ) own ON true
                CROSS JOIN LATERAL (
                    SELECT CASE WHEN own.found THEN own.concurrency ELSE q.group_concurrency END AS concurrency,
                        CASE WHEN own.found THEN own.rate ELSE q.group_rate END AS rate,
                        CASE WHEN own.found THEN coalesce(own.burst, greatest(1, ceil(own.rate)))
                            ELSE coalesce(q.group_burst, greatest(1, ceil(q.group_rate)))
                        END::integer AS burst
                    OFFSET 0
                ) r
                CROSS JOIN LATERAL (
                    SELECT CASE WHEN r.concurrency IS NOT NULL THEN (
                            SELECT count(*) FROM (
                                SELECT FROM mainspring.tasks t
                                WHERE split_part(t.queue, '@', 1) = gate AND t.group_key = k.group_key
                                    AND t.status = 'running'
                                LIMIT r.concurrency
                            ) one
                        ) END AS running,
                        CASE WHEN r.concurrency IS NOT NULL OR r.rate IS NOT NULL THEN (
                            SELECT count(*) FROM stock s WHERE s.group_key = k.group_key
                        )::integer END AS waiting
                    OFFSET 0
                ) c
                LEFT JOIN LATERAL (
                    SELECT o.tokens, o.waiting, o.refilled_at FROM mainspring.buckets o
                    WHERE o.queue = gate AND o.group_key = k.group_key AND r.rate IS NOT NULL
                    LIMIT 1
                ) was ON true
                CROSS JOIN LATERAL (
                    SELECT mainspring.tokens_v1(
                        instant, r.rate, r.burst, was.tokens, was.waiting, was.refilled_at, c.waiting) AS tokens
                    OFFSET 0
                ) b
            ), open AS MATERIALIZED (
                SELECT l.*, s.room, (l.want + sum(l.ahead) OVER w) / row_number() OVER w AS level
                FROM looked l JOIN states s ON s.group_key = l.group_key
                WHERE l.want > 0 AND coalesce(s.room, 1) > 0
                WINDOW w AS (PARTITION BY l.band ORDER BY l.ahead, l.group_key)
            ), quotas AS MATERIALIZED (
                -- Each line up to one level of turns, at which all together are as many as are wanted; and
                -- some more, for lines that are shorter.
                SELECT o.*, least(o.want, o.room, greatest(o.share, 1 + 2 * ceil(
                    min(o.level) OVER (PARTITION BY o.band) - o.ahead)))::integer AS quota
                FROM open o
            ), candidates AS MATERIALIZED (
                SELECT o.band, o.priority, o.group_key, o.tag, o.want, o.share, o.room, c.id,
                    c.scheduled_at + make_interval(mins => 10 * o.priority) AS rank,
                    row_number() OVER (
                        PARTITION BY o.band, o.group_key ORDER BY c.scheduled_at, c.id) AS place
                FROM quotas o
                CROSS JOIN LATERAL (
                    SELECT n.id, n.scheduled_at FROM unnest(names) AS b (name)
                    CROSS JOIN LATERAL (
                        SELECT h.id, h.scheduled_at FROM (
                            SELECT t.id, t.scheduled_at, t.task_type FROM mainspring.tasks t
                            WHERE split_part(t.queue, '@', 1) = gate AND t.group_key = o.group_key
                                AND t.priority = o.priority AND t.queue = b.name AND t.status = 'held'
                                AND t.scheduled_at > o.low AND t.scheduled_at <= o.high
                                AND (leaving = '{}' OR mainspring.partition_of(t.id) <> ALL (leaving))
                            ORDER BY t.scheduled_at, t.id
                            LIMIT 500
                        ) h
                        WHERE h.task_type = ANY (task_types)
                        LIMIT o.quota
                    ) n
                    ORDER BY n.scheduled_at, n.id
                    LIMIT o.quota
                ) c
            ), fitting AS MATERIALIZED (
                SELECT f.*, row_number() OVER (
                    PARTITION BY f.band
                    ORDER BY f.tag + (f.place - 1) / f.share * f.share,
                        CASE WHEN f.share = 1 THEN f.rank END, f.group_key, f.place) AS seat
                FROM (
                    SELECT c.*, row_number() OVER (PARTITION BY c.group_key ORDER BY c.rank, c.id) AS nth
                    FROM candidates c
                ) f
                WHERE f.room IS NULL OR f.nth <= f.room
            ), ranks AS MATERIALIZED (
                SELECT f.band, array_agg(f.rank ORDER BY f.rank) AS ranks
                FROM fitting f WHERE f.seat <= f.want
                GROUP BY f.band
            ), chosen AS MATERIALIZED (
                -- Where the queue has not room for all, its priorities share that by rank, and the groups
                -- what a priority has of it by their turns.
                SELECT f.id FROM fitting f JOIN ranks r ON r.band = f.band
                WHERE f.seat <= f.want
                ORDER BY r.ranks[f.seat], f.id
                LIMIT queue_room
            ), locked AS MATERIALIZED (
                -- Said so that no index of what is held offers itself for a look-up by id.
                SELECT t.id FROM chosen c JOIN mainspring.tasks t ON t.id = ANY (ARRAY[c.id])
                WHERE t.status NOT IN ('coming', 'pending', 'retrying', 'running')
                FOR UPDATE OF t SKIP LOCKED
            ), let_in AS (
                UPDATE mainspring.tasks t
                SET status = CASE WHEN t.attempt_count > 0 THEN 'retrying' ELSE 'pending' END
                FROM locked c
                WHERE t.id = ANY (ARRAY[c.id])
                RETURNING t.group_key, t.priority, t.scheduled_at
            ), counted AS MATERIALIZED (
                SELECT i.group_key, i.priority, count(*)::integer AS count FROM let_in i GROUP BY 1, 2
            ), after AS MATERIALIZED (
                SELECT s.group_key, s.rate, s.burst, s.waiting + n.count AS waiting,
                    s.tokens - n.count AS tokens, n.count,
                    s.concurrency - s.running - s.waiting <= n.count AS is_full,
                    CASE WHEN s.tokens - n.count + 1e-9 < 1
                        THEN mainspring.next_token_v1(instant, s.rate, s.tokens - n.count) END AS until
                FROM states s
                LEFT JOIN (
                    SELECT c.group_key, sum(c.count)::integer AS count FROM counted c GROUP BY c.group_key
                ) i ON i.group_key = s.group_key
                CROSS JOIN LATERAL (SELECT coalesce(i.count, 0) AS count) n
            ), filled AS (
                INSERT INTO mainspring.buckets AS b (
                    queue, group_key, tokens, waiting, refilled_at, full_at)
                SELECT gate, a.group_key, a.tokens, a.waiting, instant,
                    instant + make_interval(secs => least(1e9, (a.burst - a.tokens) / a.rate))
                FROM after a
                WHERE a.rate IS NOT NULL
                ORDER BY a.group_key
                ON CONFLICT (queue, group_key) DO UPDATE SET tokens = excluded.tokens,
                    waiting = excluded.waiting, full_at = excluded.full_at,
                    refilled_at = greatest(b.refilled_at, excluded.refilled_at)
            )
            SELECT array_agg(x.group_key), array_agg(x.priority), array_agg(x.turn),
                array_agg(x.is_full), array_agg(x.until), array_agg(x.is_short), (
                    SELECT coalesce(sum(c.count), 0)::integer FROM counted c), (
                    SELECT min(i.scheduled_at) FROM let_in i),
                (
                    SELECT max(n.count) FROM (
                        SELECT count(*)::integer AS count FROM looked l
                        GROUP BY l.band, l.want, l.share
                        HAVING count(*) >= 2 * l.want / l.share + 20
                    ) n
                ),
                CASE WHEN q.rate IS NOT NULL OR EXISTS (SELECT FROM after a WHERE a.rate IS NOT NULL)
                    THEN ARRAY(SELECT a.group_key FROM after a WHERE a.count > 0 AND (
                        a.rate IS NOT NULL OR q.rate IS NOT NULL)) END
            INTO line_groups, line_priorities, line_turns, line_full, line_untils, line_short,
                admitted, since, window_full, rated
            FROM (
                SELECT l.group_key, l.priority, l.tag + c.count AS turn,
                    coalesce(a.is_full, false) AS is_full, a.until,
                    l.want > 0 AND coalesce(c.count, 0) < l.want AS is_short
                FROM (
                    SELECT n.group_key, n.priority, max(n.tag) AS tag, max(n.want) AS want
                    FROM looked n GROUP BY 1, 2
                ) l
                JOIN after a ON a.group_key = l.group_key
                LEFT JOIN counted c ON c.group_key = l.group_key AND c.priority = l.priority
            ) x;

            IF rated IS NOT NULL THEN
                -- Without their rows they are full, as they have been for long.
                DELETE FROM mainspring.buckets b
                WHERE b.queue = gate AND b.group_key = ANY (ARRAY(
                    SELECT o.group_key FROM mainspring.buckets o
                    WHERE o.queue = gate AND o.waiting = 0 AND o.full_at < instant - interval '1 hour'
                    ORDER BY o.full_at
                    LIMIT 100));
            END IF;

            -- Lines in which nobody stands any more go; the others have their turn and their time.
            WITH given AS MATERIALIZED (
                SELECT gate AS queue, l.* FROM unnest(
                    line_groups, line_priorities, line_turns, line_full, line_untils, line_short)
                    AS l (group_key, priority, turn, is_full, until, is_short)
            ), gone AS (
                DELETE FROM mainspring.lines l USING given n
                WHERE l.queue = ANY (ARRAY[n.queue]) AND l.group_key = ANY (ARRAY[n.group_key])
                    AND l.priority = ANY (ARRAY[n.priority]) AND (n.turn IS NOT NULL OR n.is_short)
                    AND NOT EXISTS (
                        SELECT FROM mainspring.tasks t
                        WHERE split_part(t.queue, '@', 1) = gate AND t.group_key = n.group_key
                            AND t.priority = n.priority AND t.status = 'held' OFFSET 0)
                RETURNING l.group_key, l.priority
            )
            UPDATE mainspring.lines l SET
                turn = coalesce(n.turn, l.turn),
                looks = CASE WHEN n.is_full AND n.turn IS NULL THEN least(l.looks + 1, 3) ELSE 0 END,
                until = CASE WHEN n.is_full THEN instant + make_interval(secs => 0.5 * 2 ^ l.looks)
                    ELSE n.until END
            FROM given n
            WHERE l.queue = ANY (ARRAY[n.queue]) AND l.group_key = ANY (ARRAY[n.group_key])
                AND l.priority = ANY (ARRAY[n.priority])
                AND (n.turn IS NOT NULL OR n.is_full OR n.until IS NOT NULL OR l.until IS NOT NULL)
                AND (n.group_key, n.priority) NOT IN (SELECT d.group_key, d.priority FROM gone d);
            -- Lines in which only others' tasks stand must not hide those behind them for ever.
            EXIT WHEN admitted > 0 OR window_full IS NULL OR skipped > 2000 OR most = 0;
            skipped := skipped + window_full;
        END LOOP;

        g.waiting := waiting_now + admitted;
        g.tokens := g.tokens - admitted;
        IF queue_room <= admitted THEN
            queue_until := CASE
                WHEN q.concurrency - running_now - waiting_now <= admitted
                    THEN instant + interval '0.5 seconds'
                ELSE mainspring.next_token_v1(instant, q.rate, g.tokens)
            END;
        END IF;
        IF EXISTS (
            SELECT FROM mainspring.lines l WHERE l.queue = gate AND l.until IS NULL
            ORDER BY l.priority, l.turn LIMIT 1)
        THEN
            next_look := greatest(instant, queue_until);
        ELSE
            next_look := (
                SELECT greatest(l.until, queue_until) FROM mainspring.lines l
                WHERE l.queue = gate AND l.until IS NOT NULL
                ORDER BY l.until LIMIT 1);
        END IF;
        UPDATE mainspring.gates w SET
            ready_at = next_look, changed = g.changed, limited_at = g.limited_at,
            tokens = g.tokens, waiting = g.waiting,
            refilled_at = CASE WHEN g.tokens IS NOT NULL
                THEN greatest(w.refilled_at, instant) END,
            turns = ARRAY(
                SELECT greatest(t.turn, (
                    SELECT max(l.turn) - 1 FROM unnest(line_priorities, line_turns) AS l (priority, turn)
                    WHERE l.priority = t.place - 1))
                FROM unnest(g.turns) WITH ORDINALITY AS t (turn, place)
                ORDER BY t.place)
        WHERE w.queue = gate;
        queue := gate;
        wait := extract(epoch FROM next_look - instant);
        RETURN NEXT;
    END LOOP;
END
$$;
