-- Placement: the labels that a task needs of its worker are the end of the stored name of its queue
-- (docs/adr/0010). Base and labels follow from the name, whoever writes it.

ALTER TABLE mainspring.queues DROP CONSTRAINT queues_name;
ALTER TABLE mainspring.queues
    ADD CONSTRAINT queues_name CHECK (
        name ~ '^([a-z0-9][a-z0-9-]{0,62}~)?[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}(@[A-Za-z0-9_.=-]+(,[A-Za-z0-9_.=-]+){0,7})?$'),
    ADD COLUMN base text COLLATE "C" NOT NULL
        GENERATED ALWAYS AS (split_part(name, '@', 1)) STORED,
    -- NULL for the queues themselves.
    ADD COLUMN labels text[] COLLATE "C"
        GENERATED ALWAYS AS (string_to_array(nullif(split_part(name, '@', 2), ''), ',')) STORED;

-- What a worker without labels serves, however many branches there are.
CREATE INDEX queues_without_labels ON mainspring.queues (name) WHERE labels IS NULL;

-- Not checked against the rows that are there: they passed a stricter one.
ALTER TABLE mainspring.tasks DROP CONSTRAINT tasks_queue;
ALTER TABLE mainspring.tasks ADD CONSTRAINT tasks_queue
    CHECK (octet_length(queue) BETWEEN 1 AND 776) NOT VALID;

ALTER TABLE mainspring.workers ADD COLUMN labels text[] COLLATE "C" NOT NULL DEFAULT '{}';

-- A branch is remembered for ever, so a namespace may have so many and no more. Concurrent
-- transactions may pass the bound by a few, which does no harm.
CREATE FUNCTION mainspring.bound_branches_v1() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM mainspring.queues q WHERE q.name = NEW.name)
        AND (
            SELECT count(*) FROM mainspring.queues q
            WHERE q.labels IS NOT NULL
                AND substring(q.name FROM '^[^~]*~') IS NOT DISTINCT FROM substring(NEW.name FROM '^[^~]*~')
        ) >= 1000
    THEN
        RAISE EXCEPTION 'labels make another branch of the queue %, and there are 1000 already; use labels that others use too, and put what differs by task into the payload',
            split_part(NEW.name, '@', 1)
            USING ERRCODE = 'invalid_parameter_value', COLUMN = 'labels';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER queues_have_bounded_branches BEFORE INSERT ON mainspring.queues
    FOR EACH ROW WHEN (position('@' IN NEW.name) > 0)
    EXECUTE FUNCTION mainspring.bound_branches_v1();
