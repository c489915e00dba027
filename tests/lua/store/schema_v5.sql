-- SPDX-License-Identifier: MIT
-- The tables as version 5 of the schema made them, for the test of the way up from there.
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

CREATE TABLE curve(                           -- a value over the steps of a training
  attempt_id INT NOT NULL REFERENCES attempt(id) ON DELETE CASCADE, name TEXT NOT NULL,
  step INT NOT NULL, value REAL, t_ns INT,    -- trained until then; value NULL: not finite
  PRIMARY KEY(attempt_id, name, step)) STRICT, WITHOUT ROWID;
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

-- what people read --------------------------------------------------------------------------
CREATE VIEW result AS
SELECT s.name AS sweep, t.id AS trial, t.role,
       CASE WHEN t.state IN ('pending','running') AND a.outcome = 'ok' THEN 'ok' ELSE t.state END
         AS state, c.params, a.id AS attempt, a.grade,
       a.flags, a.message AS reason, g.phase, g.cache, g.clock, g.med AS t_ns, g.ci_lo, g.ci_hi,
       g.min AS t_min, g.p95, g.p99, g.n, e.id AS env, m.cpu, d.name AS device, b.git, b.dirty,
       a.began, p.version AS protocol, g.passes, g.quiet, g.ratio, g.ratio_lo, g.ratio_hi
FROM trial t JOIN sweep s ON s.id = t.sweep_id JOIN config c ON c.id = t.config_id
JOIN protocol p ON p.id = s.protocol_id
LEFT JOIN attempt a ON a.id = t.best_attempt LEFT JOIN timing g ON g.attempt_id = a.id
LEFT JOIN env e ON e.id = a.env_id LEFT JOIN machine m ON m.id = e.machine_id
LEFT JOIN device d ON d.id = e.device_id LEFT JOIN build b ON b.id = e.build_id;
PRAGMA application_id=0x52494447;
PRAGMA user_version=5;
