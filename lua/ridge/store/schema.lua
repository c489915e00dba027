-- SPDX-License-Identifier: MIT
-- The tables of a results database and the views that people read.
--
-- Identical things are one row, by content hash; results are only ever added; raw samples stay.
-- Times of day are microseconds since 1970 (they fit a double exactly), durations nanoseconds.
-- SQL written by users reads only `result` and one wide view for each sweep; columns are added to
-- views, never taken away.
--
-- In tables WITHOUT ROWID the key's columns come first: SQLite 3.40's integrity_check otherwise
-- reports NULLs that are not there.

local canonical = require 'ridge.store.canonical'

local M = {}

--- 'RIDG': tells our files from other programs' databases.
M.APPLICATION_ID = 0x52494447

--- The newest schema this ridge reads and writes.
M.VERSION = 7

M.CURVE = [[
CREATE TABLE curve(                           -- a value over the steps of a training
  attempt_id INT NOT NULL REFERENCES attempt(id) ON DELETE CASCADE, name TEXT NOT NULL,
  step INT NOT NULL, value REAL, t_ns INT,    -- trained until then; value NULL: not finite
  PRIMARY KEY(attempt_id, name, step)) STRICT, WITHOUT ROWID;
]]

M.COMPARISON = [[
CREATE TABLE comparison(                      -- two candidates held against each other
  id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE,
  sweep TEXT, phase TEXT NOT NULL, cache TEXT NOT NULL,
  a TEXT NOT NULL CHECK(json_valid(a)), b TEXT NOT NULL CHECK(json_valid(b)), -- parameters
  env_id INT REFERENCES env(id),
  design TEXT NOT NULL,                       -- 'ABBA'; blocks of four slots, coins for BAAB
  blocks INT NOT NULL, procs INT NOT NULL, looks INT NOT NULL,
  a_ns REAL, b_ns REAL,                       -- median time of a call
  ratio REAL NOT NULL, ci_lo REAL, ci_hi REAL, ci_how TEXT, p REAL, q REAL,
  floor REAL, margin REAL, aa REAL,           -- what a candidate makes of itself
  verdict TEXT NOT NULL CHECK(verdict IN ('faster','slower','equal','open')), -- b against a
  needed INT, flags TEXT NOT NULL DEFAULT '', foreign_share REAL, steal_share REAL,
  pressure_share REAL, slots BLOB,            -- f64ns of four slots for each block, in order
  designs TEXT,                               -- one letter a block: a ABBA, b BAAB, A and B: A/A
  at INT NOT NULL) STRICT;
]]

M.CHOICE = [[
CREATE TABLE choice(                          -- a path that was measured to be the fastest
  id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE,
  machine_id INT NOT NULL REFERENCES machine(id),
  versions TEXT NOT NULL CHECK(json_valid(versions)), -- of what computes by each path
  operation TEXT NOT NULL, problem TEXT NOT NULL,     -- 'product'; sizes, types, layout, threads
  path TEXT NOT NULL, standard TEXT NOT NULL,
  rounds INT NOT NULL, times TEXT NOT NULL CHECK(json_valid(times)), -- ns, interval by path
  at INT NOT NULL) STRICT;
CREATE INDEX choice_newest ON choice(machine_id, versions, operation, problem, at);
]]

M.RESULT = [[
CREATE VIEW result AS
SELECT s.name AS sweep, t.id AS trial, t.role,
       CASE WHEN t.state IN ('pending','running') AND a.outcome = 'ok' THEN 'ok' ELSE t.state END
         AS state, c.params, a.id AS attempt, a.grade,
       a.flags, a.message AS reason, g.phase, g.cache, g.clock, g.med AS t_ns, g.ci_lo, g.ci_hi,
       g.min AS t_min, g.p95, g.p99, g.n, e.id AS env, m.cpu, d.name AS device, b.git, b.dirty,
       a.began, p.version AS protocol, g.passes, g.quiet, g.ratio, g.ratio_lo, g.ratio_hi,
       g.sd_minutes
FROM trial t JOIN sweep s ON s.id = t.sweep_id JOIN config c ON c.id = t.config_id
JOIN protocol p ON p.id = s.protocol_id
LEFT JOIN attempt a ON a.id = t.best_attempt LEFT JOIN timing g ON g.attempt_id = a.id
LEFT JOIN env e ON e.id = a.env_id LEFT JOIN machine m ON m.id = e.machine_id
LEFT JOIN device d ON d.id = e.device_id LEFT JOIN build b ON b.id = e.build_id;
]]

M.TABLES = [[
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- who and what ------------------------------------------------------------------------------
CREATE TABLE machine(                         -- one row for each piece of hardware
  id INTEGER PRIMARY KEY, fp BLOB NOT NULL UNIQUE,
  hostname TEXT, cpu TEXT NOT NULL, sockets INT, cores INT, threads INT, isa TEXT,
  l1d INT, l2 INT, l3 INT, ram INT, os TEXT, kernel TEXT, virt TEXT,
  facts TEXT NOT NULL DEFAULT '{}') STRICT;

CREATE TABLE device(                          -- the CPU or a GPU of that machine
  id INTEGER PRIMARY KEY, machine_id INT NOT NULL REFERENCES machine(id),
  kind TEXT NOT NULL CHECK(kind IN ('cpu','cuda')), uuid TEXT NOT NULL, name TEXT NOT NULL,
  mem INT, facts TEXT NOT NULL DEFAULT '{}',
  UNIQUE(machine_id, uuid)) STRICT;

CREATE TABLE ceiling(                         -- roofline ceilings, measured, dated
  device_id INT NOT NULL REFERENCES device(id), name TEXT NOT NULL,
  threads INT NOT NULL, at INT NOT NULL, value REAL NOT NULL, unit TEXT NOT NULL,
  ci_lo REAL, ci_hi REAL,
  PRIMARY KEY(device_id, name, threads, at)) STRICT, WITHOUT ROWID;

CREATE TABLE build(
  id INTEGER PRIMARY KEY, fp BLOB NOT NULL UNIQUE, ridge TEXT NOT NULL, git TEXT, dirty INT,
  compiler TEXT, flags TEXT, debug INT NOT NULL, libs TEXT NOT NULL) STRICT;

CREATE TABLE env(                             -- what must be equal for numbers to be comparable
  id INTEGER PRIMARY KEY, fp BLOB NOT NULL UNIQUE,
  machine_id INT NOT NULL REFERENCES machine(id), build_id INT NOT NULL REFERENCES build(id),
  device_id INT NOT NULL REFERENCES device(id),
  governor TEXT, turbo INT, smt INT, aslr INT, thp TEXT, cpuset TEXT, cpu_quota REAL,
  vars TEXT NOT NULL DEFAULT '{}') STRICT;

CREATE TABLE recipe(id INTEGER PRIMARY KEY, sha BLOB NOT NULL UNIQUE, name TEXT,
  source TEXT NOT NULL) STRICT;
CREATE TABLE protocol(id INTEGER PRIMARY KEY, sha BLOB NOT NULL UNIQUE,
  json TEXT NOT NULL CHECK(json_valid(json)),
  version INT NOT NULL DEFAULT 1) STRICT;     -- 1: rounds in one process, 2: passes

-- what is to be measured --------------------------------------------------------------------
CREATE TABLE config(                          -- same parameters = same row, in every sweep
  id INTEGER PRIMARY KEY, sha BLOB NOT NULL UNIQUE,
  params TEXT NOT NULL CHECK(json_valid(params))) STRICT;

CREATE TABLE param(                           -- typed copy for indexed queries and plots
  config_id INT NOT NULL REFERENCES config(id) ON DELETE CASCADE, name TEXT NOT NULL,
  num REAL, txt TEXT, PRIMARY KEY(config_id, name)) STRICT, WITHOUT ROWID;
CREATE INDEX param_num ON param(name, num) WHERE num IS NOT NULL;
CREATE INDEX param_txt ON param(name, txt) WHERE txt IS NOT NULL;

CREATE TABLE sweep(
  id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,                  -- base, or base-2, base-3 .. after --new
  base TEXT NOT NULL, generation INT NOT NULL DEFAULT 1,
  recipe_id INT NOT NULL REFERENCES recipe(id),
  protocol_id INT NOT NULL REFERENCES protocol(id),
  args TEXT NOT NULL CHECK(json_valid(args)), space TEXT NOT NULL CHECK(json_valid(space)),
  strategy TEXT NOT NULL, seed INT NOT NULL,
  n_rejected INT NOT NULL DEFAULT 0,          -- combinations 'where' removed: the grid adds up
  rules TEXT NOT NULL DEFAULT '{}' CHECK(json_valid(rules)), -- tries, monotone
  state TEXT NOT NULL DEFAULT 'open' CHECK(state IN ('open','paused','done','cancelled')),
  created INT NOT NULL, UNIQUE(base, generation)) STRICT;

CREATE TABLE trial(
  id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE,
  sweep_id INT NOT NULL REFERENCES sweep(id), config_id INT NOT NULL REFERENCES config(id),
  rep INT NOT NULL DEFAULT 0,                 -- replicate; anchors use rep 0 .. n
  role TEXT NOT NULL DEFAULT 'point' CHECK(role IN ('point','anchor','refine','aa')),
  state TEXT NOT NULL DEFAULT 'pending' CHECK(state IN ('pending','running','ok','infeasible',
    'oom','timeout','error','crashed','pruned','implied','cancelled')),
  ord INT NOT NULL,                           -- seeded random order, not grid order
  prio INT NOT NULL DEFAULT 0,                -- -1: grade D, once more; -2: suspect
  worker_id INT REFERENCES worker(id),
  tries INT NOT NULL DEFAULT 0,               -- claims so far: fences a zombie, numbers attempts
  crashes INT NOT NULL DEFAULT 0,             -- tries lost by its own doing
  again INT NOT NULL DEFAULT 0,               -- 1: has more passes than every point has
  best_attempt INT REFERENCES attempt(id),
  shard INT NOT NULL DEFAULT 0,               -- first 4 bytes of config.sha
  implied_by INT REFERENCES trial(id),        -- whose failure says that this one would fail too
  reused INT NOT NULL DEFAULT 0,              -- 1: the best attempt was made for another sweep
  passes INT NOT NULL DEFAULT 0,              -- passes behind the best attempt
  turn INT NOT NULL DEFAULT 0,                -- place in the next pass: another random order each
  UNIQUE(sweep_id, config_id, rep, role)) STRICT;
CREATE INDEX trial_claim ON trial(sweep_id, prio DESC, passes, turn, ord) WHERE state='pending';
CREATE INDEX trial_live  ON trial(worker_id)                WHERE state='running';
CREATE INDEX trial_conf  ON trial(config_id, state);

-- what happened -----------------------------------------------------------------------------
CREATE TABLE worker(
  id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE,
  machine_id INT NOT NULL REFERENCES machine(id),
  boot_id TEXT NOT NULL, pid INT NOT NULL, lock TEXT NOT NULL,
  argv TEXT, started INT NOT NULL, ended INT, how TEXT) STRICT;

CREATE TABLE attempt(                         -- append-only; a retry never overwrites
  id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE,
  trial_id INT NOT NULL REFERENCES trial(id),
  n INT NOT NULL, worker_id INT NOT NULL REFERENCES worker(id), env_id INT REFERENCES env(id),
  began INT NOT NULL, ended INT,
  outcome TEXT NOT NULL DEFAULT 'running' CHECK(outcome IN ('running','ok','infeasible','oom',
    'timeout','error','crashed','lost','stale','pruned')),
  signal TEXT, message TEXT, trace TEXT,
  printed TEXT,                               -- the end of what a failed point printed
  peak_dev INT, seed INT,
  grade TEXT, flags TEXT NOT NULL DEFAULT '', -- worst grade and all flags of its timings
  pass INT,                                   -- which pass this is; NULL: of protocol 1
  series BLOB,                                -- the same in all passes that one result stands for
  turn INT,                                   -- place in its process: 1 was measured first
  inputs TEXT,                                -- checksum of what its setup made
  left_bytes REAL,                            -- live still when the point had been let go
  partner TEXT,                               -- parameters of what was timed beside it
  UNIQUE(trial_id, n)) STRICT;
CREATE INDEX attempt_series ON attempt(series, pass) WHERE series IS NOT NULL;
CREATE INDEX attempt_live ON attempt(worker_id) WHERE outcome='running';

CREATE TABLE timing(                          -- one row for each phase, clock and cache mode
  id INTEGER PRIMARY KEY, attempt_id INT NOT NULL REFERENCES attempt(id) ON DELETE CASCADE,
  phase TEXT NOT NULL, clock TEXT NOT NULL,
  cache TEXT NOT NULL CHECK(cache IN ('warm','cold','first')),
  n INT NOT NULL, n_eff REAL, rounds INT, inner INT NOT NULL, warm_ns REAL, warm_calls INT,
  min REAL, p25 REAL, med REAL NOT NULL, p75 REAL, p95 REAL, p99 REAL, max REAL,
  mean REAL, sd REAL, mad REAL, ci_lo REAL, ci_hi REAL, ci_level REAL, ci_how TEXT,
  r1 REAL, drift REAL, sentinel REAL,
  foreign_share REAL, steal_share REAL, pressure_share REAL, -- of the time, while it was measured
  throttled REAL, clock_hz REAL,
  grade TEXT, flags TEXT NOT NULL DEFAULT '', -- judged by thresholds: 'calibrated' or 'fixed'
  thresholds TEXT, stop TEXT,
  passes INT, procs INT,                      -- passes behind the numbers above, and processes
  sd_between REAL, sd_within REAL,            -- of the logarithm: of passes, of windows in a pass
  quiet REAL, quiet_lo REAL, quiet_hi REAL,   -- in the machine's fast state
  ratio REAL, ratio_lo REAL, ratio_hi REAL,   -- over the partner's time, formed in each pass
  pass_med REAL, pass_ratio REAL, pass_flags TEXT, -- of this pass alone, as are the samples
  sd_minutes REAL,                            -- of the logarithm: between minutes that the passes
                                              -- have not seen; part of ci_lo, ci_hi and of quiet's
  UNIQUE(attempt_id, phase, clock, cache)) STRICT;

CREATE TABLE samples(                         -- raw data, one BLOB, not one row for each sample
  timing_id INTEGER PRIMARY KEY REFERENCES timing(id) ON DELETE CASCADE,
  enc TEXT NOT NULL,                          -- 'dur:f32ns at:f64ns mark:u8'
  n INT NOT NULL, t0 REAL,                    -- ns on the timing's clock
  dur BLOB NOT NULL, at BLOB, mark BLOB) STRICT;

CREATE TABLE metric(
  attempt_id INT NOT NULL REFERENCES attempt(id) ON DELETE CASCADE, name TEXT NOT NULL,
  value REAL, unit TEXT, better INT CHECK(better IN (-1,0,1)), how TEXT,
  PRIMARY KEY(attempt_id, name)) STRICT, WITHOUT ROWID;
CREATE INDEX metric_name ON metric(name, value);

]] .. M.CURVE .. M.COMPARISON .. M.CHOICE .. [[

-- what people read --------------------------------------------------------------------------
]] .. M.RESULT

--- What brings a file of the version before to each version; all of it only adds.
M.STEPS = {
  [2] = [[
    ALTER TABLE sweep ADD COLUMN rules TEXT NOT NULL DEFAULT '{}' CHECK(json_valid(rules));
    ALTER TABLE trial ADD COLUMN shard INT NOT NULL DEFAULT 0;
    ALTER TABLE trial ADD COLUMN implied_by INT REFERENCES trial(id);
    ALTER TABLE trial ADD COLUMN reused INT NOT NULL DEFAULT 0;
    ALTER TABLE attempt ADD COLUMN printed TEXT;
    UPDATE trial SET shard = (SELECT
      (instr('0123456789ABCDEF', substr(h, 1, 1)) - 1) * 268435456 +
      (instr('0123456789ABCDEF', substr(h, 2, 1)) - 1) * 16777216 +
      (instr('0123456789ABCDEF', substr(h, 3, 1)) - 1) * 1048576 +
      (instr('0123456789ABCDEF', substr(h, 4, 1)) - 1) * 65536 +
      (instr('0123456789ABCDEF', substr(h, 5, 1)) - 1) * 4096 +
      (instr('0123456789ABCDEF', substr(h, 6, 1)) - 1) * 256 +
      (instr('0123456789ABCDEF', substr(h, 7, 1)) - 1) * 16 +
      (instr('0123456789ABCDEF', substr(h, 8, 1)) - 1)
      FROM (SELECT hex(sha) AS h FROM config WHERE config.id = trial.config_id));
  ]],
  [3] = M.COMPARISON,
  [4] = M.CURVE,
  [5] = [[
    ALTER TABLE protocol ADD COLUMN version INT NOT NULL DEFAULT 1;
    ALTER TABLE trial ADD COLUMN passes INT NOT NULL DEFAULT 0;
    ALTER TABLE trial ADD COLUMN turn INT NOT NULL DEFAULT 0;
    DROP INDEX trial_claim;
    CREATE INDEX trial_claim ON trial(sweep_id, prio DESC, passes, turn, ord)
      WHERE state='pending';
    ALTER TABLE attempt ADD COLUMN pass INT;
    ALTER TABLE attempt ADD COLUMN series BLOB;
    ALTER TABLE attempt ADD COLUMN turn INT;
    ALTER TABLE attempt ADD COLUMN inputs TEXT;
    ALTER TABLE attempt ADD COLUMN left_bytes REAL;
    ALTER TABLE attempt ADD COLUMN partner TEXT;
    CREATE INDEX attempt_series ON attempt(series, pass) WHERE series IS NOT NULL;
    ALTER TABLE timing ADD COLUMN passes INT;
    ALTER TABLE timing ADD COLUMN procs INT;
    ALTER TABLE timing ADD COLUMN sd_between REAL;
    ALTER TABLE timing ADD COLUMN sd_within REAL;
    ALTER TABLE timing ADD COLUMN quiet REAL;
    ALTER TABLE timing ADD COLUMN quiet_lo REAL;
    ALTER TABLE timing ADD COLUMN quiet_hi REAL;
    ALTER TABLE timing ADD COLUMN ratio REAL;
    ALTER TABLE timing ADD COLUMN ratio_lo REAL;
    ALTER TABLE timing ADD COLUMN ratio_hi REAL;
    ALTER TABLE timing ADD COLUMN pass_med REAL;
    ALTER TABLE timing ADD COLUMN pass_ratio REAL;
    ALTER TABLE timing ADD COLUMN pass_flags TEXT;
    DROP VIEW result;
  ]] .. M.RESULT:gsub(',%s+g%.sd_minutes', ''), -- a column of step 7
  [6] = M.CHOICE,
  [7] = [[
    ALTER TABLE timing ADD COLUMN sd_minutes REAL;
    DROP VIEW result;
  ]] .. M.RESULT,
}

--- The state of a trial t with its best attempt a as people read it: one that waits for its next
--- pass has a result already.
M.STATE = "CASE WHEN t.state IN ('pending','running') AND a.outcome = 'ok' THEN 'ok' "
  .. 'ELSE t.state END'

--- The trial of the same sweep that was timed beside the best attempt a of a trial t.
M.PARTNER = [[(SELECT o.id FROM main.config f JOIN main.trial o ON o.config_id = f.id
  WHERE a.partner IS NOT NULL AND f.params = a.partner AND o.sweep_id = t.sweep_id
    AND o.role = 'point' LIMIT 1)]]

--- Columns every wide view and every row of results has; parameters, phases and metrics have other
--- names.
M.FIXED = { 'trial', 'role', 'rep', 'state', 'grade', 'flags', 'reason', 'tries', 'began',
  'reused', 'implied_by', 'passes', 'partner' }

-- Where and when the best attempt a of a trial was measured, as SQL; a sweep's own columns of such
-- a name hide these.  A machine is called by its fingerprint, an m so that it is no number.
local OF_ENV = "(SELECT %s FROM main.env e JOIN main.%s o ON o.id = e.%s_id WHERE e.id = a.env_id)"
local ORIGIN = {
  { 'machine', OF_ENV:format("'m' || lower(substr(hex(o.fp), 1, 7))", 'machine', 'machine') },
  { 'cpu', OF_ENV:format('o.cpu', 'machine', 'machine') },
  { 'commit', OF_ENV:format('substr(o.git, 1, 12)', 'build', 'build') },
  { 'host', OF_ENV:format('o.hostname', 'machine', 'machine') },
  { 'date', "strftime('%Y-%m-%d', a.began / 1000000, 'unixepoch')" },
}

--- Names of the columns that say where, when and in what sweep a point was measured.
M.ORIGIN = { 'machine', 'cpu', 'commit', 'host', 'date', 'sweep' }

--- Where the points of a sweep were measured: a row a trial, with those columns.
M.ORIGINS = '/* origins */ SELECT t.id AS trial'
for _, column in ipairs(ORIGIN) do
  M.ORIGINS = ('%s, %s AS "%s"'):format(M.ORIGINS, column[2], column[1])
end
M.ORIGINS = M.ORIGINS .. [[, s.name AS sweep FROM main.trial t
  JOIN main.sweep s ON s.id = t.sweep_id
  LEFT JOIN main.attempt a ON a.id = t.best_attempt WHERE t.sweep_id = ?]]

--- What a timing adds to a row for a phase `fwd`: `fwd` (the median), `fwd_lo`, `fwd_p95` ...
M.PHASE_COLUMNS = {
  { '', 'med' }, { '_lo', 'ci_lo' }, { '_hi', 'ci_hi' }, { '_min', 'min' }, { '_p25', 'p25' },
  { '_p75', 'p75' }, { '_p95', 'p95' }, { '_p99', 'p99' }, { '_max', 'max' },
  { '_mean', 'mean' }, { '_sd', 'sd' }, { '_mad', 'mad' }, { '_n', 'n' }, { '_grade', 'grade' },
  { '_flags', 'flags' }, { '_quiet', 'quiet' }, { '_quiet_lo', 'quiet_lo' },
  { '_quiet_hi', 'quiet_hi' }, { '_ratio', 'ratio' }, { '_ratio_lo', 'ratio_lo' },
  { '_ratio_hi', 'ratio_hi' }, { '_passes', 'passes' }, { '_procs', 'procs' },
  { '_between', 'sd_between' }, { '_within', 'sd_within' },
  { '_between_minutes', 'sd_minutes' },
}

--- Ends of intervals of times as they are read: of old rows some lie below zero, where no time is.
--- What is stored stays.
M.ENDS = { ci_lo = true, ci_hi = true }

--- How many stored ends are below zero.
M.BELOW = [[/* ends below zero */ SELECT coalesce(sum((g.ci_lo < 0) + (g.ci_hi < 0)), 0)
  FROM main.trial t JOIN main.timing g ON g.attempt_id = t.best_attempt WHERE t.sweep_id = ?]]

-- A column of timings as it is read.
local function seen(alias, column)
  return (M.ENDS[column] and 'max(%s%s, 0.0)' or '%s%s'):format(alias, column)
end

--- What the timing with cold caches adds where there is a warm one too.
M.COLD_COLUMNS = { { '_cold', 'med' }, { '_cold_lo', 'ci_lo' }, { '_cold_hi', 'ci_hi' },
  { '_cold_between_minutes', 'sd_minutes' } }

--- Names of all tables and views of ours, which a sweep cannot have: its view would hide them.
---@return table set name to true
function M.reserved()
  local set = {}
  for name in (M.TABLES .. ' '):gmatch 'CREATE %u+ ([%a_]+)' do set[name] = true end
  return set
end

--- Make all tables in an empty database; the caller is inside a transaction.
---@param db table
---@param version string ridge's version, noted in the file
function M.create(db, version)
  db:exec(M.TABLES, 'create schema')
  db:insert('meta', { key = 'created_by', value = 'ridge ' .. version })
  db:exec(('PRAGMA application_id=%d; PRAGMA user_version=%d'):format(M.APPLICATION_ID, M.VERSION))
end

-- Wide views ---------------------------------------------------------------------------------

local function quoted(name) return '"' .. name:gsub('"', '""') .. '"' end
local function literal(text) return "'" .. text:gsub("'", "''") .. "'" end

local function names(db, sql, id, packed)
  if packed then return packed end
  local out = {}
  for i, row in ipairs(db:query(sql, id)) do out[i] = row.name end
  return out
end

local PARAMS = [[/* names of params */ SELECT DISTINCT p.name AS name FROM trial t
  JOIN param p ON p.config_id = t.config_id WHERE t.sweep_id = ? ORDER BY 1]]
local PHASES = [[/* names of phases */ SELECT DISTINCT g.phase AS name FROM trial t
  JOIN timing g ON g.attempt_id = t.best_attempt WHERE t.sweep_id = ? ORDER BY 1]]
local COLD = [[/* phases timed warm and cold */ SELECT g.phase AS name FROM trial t
  JOIN timing g ON g.attempt_id = t.best_attempt WHERE t.sweep_id = ? GROUP BY g.phase
  HAVING max(g.cache = 'warm') AND max(g.cache = 'cold') ORDER BY 1]]
local METRICS = [[/* names of metrics */ SELECT DISTINCT m.name AS name FROM trial t
  JOIN metric m ON m.attempt_id = t.best_attempt WHERE t.sweep_id = ? ORDER BY 1]]

--- What the columns of the wide view of a sweep are made from.
---@param db table
---@param id integer sweep id
---@return table names params, phases, cold, metrics: sorted lists
function M.names(db, id)
  return { params = names(db, PARAMS, id), phases = names(db, PHASES, id),
           cold = names(db, COLD, id), metrics = names(db, METRICS, id) }
end

--- The statement that makes the wide view of a sweep.
---@param db table
---@param id integer sweep id
---@param name string sweep name
---@param kept boolean|nil as part of the file, not of this connection
---@param view string|nil its name, where that is not the sweep's (see view_names)
---@return string sql
---@return table origin a set: which of M.ORIGIN are columns of it
function M.wide_view(db, id, name, kept, view)
  -- a view of a file names no database: the file may be attached by any name
  local function own(sql) return kept and (sql:gsub('main%.', '')) or sql end
  local head = require('ridge.store.pack').head_of(db, id)
  local known = head and head.names or {}
  local columns = { 't.id AS trial', 't.role', 't.rep', M.STATE .. ' AS state', 'a.grade',
    'a.flags', 'a.message AS reason', 't.tries', 'a.began', 't.reused', 't.implied_by',
    't.passes', own(M.PARTNER) .. ' AS partner' }
  local joins, taken = {}, {}
  for _, column in ipairs(M.FIXED) do taken[column] = true end
  local function add(expression, column)
    -- names differing only in case are one column for SQLite
    if taken[column:lower()] then return end
    taken[column:lower()] = true
    columns[#columns + 1] = expression .. ' AS ' .. quoted(column)
    return true
  end
  for _, param in ipairs(names(db, PARAMS, id, known.params)) do
    add(('json_extract(c.params, %s)'):format(literal('$.' .. canonical.encode(param))), param)
  end
  for i, phase in ipairs(names(db, PHASES, id, known.phases)) do
    joins[i] = own([[LEFT JOIN main.timing g%d ON g%d.id = (SELECT min(id) FROM main.timing
      WHERE attempt_id = a.id AND phase = %s AND cache <> 'first')]]):format(i, i, literal(phase))
    for _, pair in ipairs(M.PHASE_COLUMNS) do
      add(seen(('g%d.'):format(i), pair[2]), phase .. pair[1])
    end
    add(own([[(SELECT med FROM main.timing
      WHERE attempt_id = a.id AND phase = %s AND cache = 'first')]]):format(literal(phase)),
      phase .. '_first')
  end
  for _, phase in ipairs(names(db, COLD, id, known.cold)) do
    for _, pair in ipairs(M.COLD_COLUMNS) do
      add(own([[(SELECT %s FROM main.timing
        WHERE attempt_id = a.id AND phase = %s AND cache = 'cold')]]):format(seen('', pair[2]),
        literal(phase)), phase .. pair[1])
    end
  end
  for _, metric in ipairs(names(db, METRICS, id, known.metrics)) do
    add(own('(SELECT value FROM main.metric WHERE attempt_id = a.id AND name = %s)'):format(
      literal(metric)), metric)
  end
  local origin = {}
  for _, column in ipairs(ORIGIN) do origin[column[1]] = add(own(column[2]), column[1]) end
  origin.sweep = add(literal(name), 'sweep')
  local sql = own([[CREATE %s %s AS SELECT %s FROM main.trial t
    JOIN main.config c ON c.id = t.config_id
    LEFT JOIN main.attempt a ON a.id = t.best_attempt %s WHERE t.sweep_id = %d]])
    :format(kept and 'VIEW' or 'TEMP VIEW', quoted(view or name), table.concat(columns, ', '),
    table.concat(joins, ' '), id)
  return sql, origin
end

-- What a view may not be called: names of tables, indexes and of the view that every file has.
local RESERVED = [[/* names of tables */ SELECT lower(name) AS name FROM main.sqlite_schema
  WHERE type <> 'view' OR name = 'result']]

--- What the view of each sweep is called: as the sweep is, unless SQLite has something of that name
--- already: a table (sweep, trial, result ...), or a sweep that differs in case only, which merged
--- files may have. Then it is NAME-points, or NAME-points-2 ...
---@param db table
---@return table<integer, string> views by the id of the sweep
---@return table[] others each name, view: sweeps whose view is called otherwise
function M.view_names(db)
  local taken, views, others = {}, {}, {}
  local sweeps = db:query '/* list sweeps */ SELECT id, name FROM main.sweep ORDER BY id'
  for _, row in ipairs(db:query(RESERVED)) do taken[row.name] = true end
  local function free(name) return not taken[name:lower()] and not name:lower():find '^sqlite_' end
  local left = {}
  for _, sweep in ipairs(sweeps) do -- those that can have their own name get it
    if free(sweep.name) then
      views[sweep.id], taken[sweep.name:lower()] = sweep.name, true
    else
      left[#left + 1] = sweep
    end
  end
  for _, sweep in ipairs(left) do
    local base = sweep.name:gsub('^[sS][qQ][lL][iI][tT][eE]_', '') .. '-points'
    local name, n = base, 1
    while not free(name) do
      n = n + 1
      name = ('%s-%d'):format(base, n)
    end
    views[sweep.id], taken[name:lower()] = name, true
    others[#others + 1] = { name = sweep.name, view = name }
  end
  return views, others
end

--- The name of the view of a sweep.
---@param db table
---@param name string of the sweep
---@return string view
function M.view_of(db, name)
  local _, others = M.view_names(db)
  for _, other in ipairs(others) do
    if other.name == name then return other.view end
  end
  return name
end

--- Make a TEMP view for each sweep: `SELECT k, rank, fwd FROM "landscape"`.
-- The views belong to this connection; call again to see phases that came later.
---@param db table
---@return table origins set of origin columns by the name of the sweep
function M.views(db)
  for _, row in ipairs(db:query '/* temp views */ SELECT name FROM temp.sqlite_schema') do
    db:exec('DROP VIEW temp.' .. quoted(row.name), 'drop view')
  end
  local origins, names_of = {}, M.view_names(db)
  for _, sweep in ipairs(db:query '/* list sweeps */ SELECT id, name FROM main.sweep') do
    local sql, origin = M.wide_view(db, sweep.id, sweep.name, false, names_of[sweep.id])
    db:exec(sql, 'view of ' .. sweep.name)
    origins[sweep.name] = origin
  end
  return origins
end

return M
