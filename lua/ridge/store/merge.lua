-- SPDX-License-Identifier: MIT
--- Taking the rows of other results databases into one.
--
-- Identical things meet by their content (hash or uuid), so that shards of one sweep unite and
-- merging twice changes nothing. Whole files: each is one transaction. Attempts are only ever
-- added; a point that is done in either file is done.

local blame = require 'ridge.blame'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- Every table in an order in which what is referred to comes first; its key; what it refers to.
local TABLES = {
  { 'machine', { 'fp' } },
  { 'device', { 'machine_id', 'uuid' }, { machine_id = 'machine' } },
  { 'ceiling', nil, { device_id = 'device' } },
  { 'build', { 'fp' } },
  { 'env', { 'fp' }, { machine_id = 'machine', build_id = 'build', device_id = 'device' } },
  { 'recipe', { 'sha' } },
  { 'protocol', { 'sha' } },
  { 'config', { 'sha' } },
  { 'param', nil, { config_id = 'config' } },
  { 'sweep', { 'uuid' }, { recipe_id = 'recipe', protocol_id = 'protocol' } },
  { 'worker', { 'uuid' }, { machine_id = 'machine' } },
  { 'trial', { 'uuid' }, { sweep_id = 'sweep', config_id = 'config' } },
  { 'attempt', { 'uuid' }, { trial_id = 'trial', worker_id = 'worker', env_id = 'env' } },
  { 'timing', { 'attempt_id', 'phase', 'clock', 'cache' }, { attempt_id = 'attempt' } },
  { 'samples', nil, { timing_id = 'timing' } },
  { 'metric', nil, { attempt_id = 'attempt' } },
  { 'curve', nil, { attempt_id = 'attempt' } },
  { 'comparison', { 'uuid' }, { env_id = 'env' } },
  { 'choice', { 'uuid' }, { machine_id = 'machine' } },
}

-- Columns that are not simply copied, as SQL over the source row s. Times of workers elsewhere are
-- over; what a file calls running is not running here.
local INSTEAD = {
  trial = { state = "CASE s.state WHEN 'running' THEN 'pending' ELSE s.state END",
    worker_id = 'NULL', best_attempt = 'NULL', implied_by = 'NULL', passes = '0' },
  attempt = { outcome = "CASE s.outcome WHEN 'running' THEN 'lost' ELSE s.outcome END",
    n = [[s.n + coalesce((SELECT max(o.n) FROM main.attempt o WHERE o.trial_id = m_trial_id.dst
      AND o.uuid NOT IN (SELECT uuid FROM src.attempt)), 0)]] },
  worker = { ended = 'coalesce(s.ended, s.started)' },
  sweep = { name = 'names.name', generation = 'names.generation' },
}

-- -- Names of sweeps -----------------------------------------------------------

-- Whether a name, or a generation of a base, is another sweep's: here, on its way, or there.
local TAKEN = [[/* taken */ SELECT 1 FROM main.sweep
    WHERE uuid <> ?1 AND (name = ?2 OR (base = ?3 AND generation = ?4))
  UNION ALL SELECT 1 FROM temp.names WHERE name = ?2 OR (base = ?3 AND generation = ?4)]]
local CLAIMED = [[/* name of another there */ SELECT 1 FROM src.sweep
  WHERE uuid <> ?1 AND (name = ?2 OR (base = ?3 AND generation = ?4))]]

-- Another sweep of the same name becomes the next generation here whose name is free: somebody may
-- have called a sweep base-2.
local function name_sweeps(db)
  db:exec('CREATE TEMP TABLE names(uuid BLOB, name TEXT, base TEXT, generation INT)', 'names')
  for _, s in ipairs(db:query [[/* sweeps of the source */ SELECT s.uuid, s.id, s.name, s.base,
      s.generation FROM src.sweep s WHERE s.uuid NOT IN (SELECT uuid FROM main.sweep)
      ORDER BY s.id]]) do
    local uuid, name, generation = sqlite.blob(s.uuid), s.name, s.generation
    local function taken(by) return db:value(by, uuid, name, s.base, generation) end
    if taken(TAKEN) then
      generation = db:value([[/* last */ SELECT max(g) FROM (
        SELECT max(generation) AS g FROM main.sweep WHERE base = ?1
        UNION ALL SELECT max(generation) FROM src.sweep WHERE base = ?1)]], s.base)
      repeat
        generation = generation + 1
        name = ('%s-%d'):format(s.base, generation)
      until not (taken(TAKEN) or taken(CLAIMED))
    end
    db:run('/* name */ INSERT INTO names SELECT uuid, ?, base, ? FROM src.sweep WHERE id = ?', name,
      generation, s.id)
  end
end

-- -- One table -----------------------------------------------------------

local function columns_of(db, name)
  local list = {}
  for _, row in ipairs(db:query(('/* columns */ PRAGMA main.table_info(%s)'):format(name))) do
    list[#list + 1] = row.name
  end
  return list
end

-- The SELECT that makes rows of the source rows of here.
local function copying(db, name, key, references)
  local into, from, joins = {}, {}, {}
  references = references or {}
  for _, column in ipairs(columns_of(db, name)) do
    if not (column == 'id' and key) then
      into[#into + 1] = column
      local instead = (INSTEAD[name] or {})[column]
      if instead then
        from[#from + 1] = instead
      elseif references[column] then
        from[#from + 1] = ('m_%s.dst'):format(column)
      else
        from[#from + 1] = 's.' .. column
      end
    end
  end
  for column, target in pairs(references) do
    joins[#joins + 1] = ('LEFT JOIN temp.map_%s m_%s ON m_%s.src = s.%s'):format(target, column,
      column, column)
  end
  if name == 'sweep' then joins[#joins + 1] = 'JOIN temp.names ON names.uuid = s.uuid' end
  return ('INSERT OR IGNORE INTO main.%s(%s) SELECT %s FROM src.%s s %s'):format(name,
    table.concat(into, ','), table.concat(from, ','), name, table.concat(joins, ' '))
end

-- Where each row of the source is now.
local function map(db, name, key, references)
  local on, joins = {}, {}
  for i, column in ipairs(key) do
    local target = references and references[column]
    if target then
      joins[#joins + 1] = ('JOIN temp.map_%s k%d ON k%d.src = s.%s'):format(target, i, i, column)
      on[#on + 1] = ('d.%s = k%d.dst'):format(column, i)
    else
      on[#on + 1] = ('d.%s = s.%s'):format(column, column)
    end
  end
  db:exec(('CREATE TEMP TABLE map_%s AS SELECT s.id AS src, d.id AS dst FROM src.%s s %s '
    .. 'JOIN main.%s d ON %s'):format(name, name, table.concat(joins, ' '), name,
    table.concat(on, ' AND ')), 'map ' .. name)
  db:exec(('CREATE INDEX temp.by_%s ON map_%s(src)'):format(name, name), 'index map')
  local lost = db:value(('/* unmapped */ SELECT (SELECT count(*) FROM src.%s) - (SELECT count(*) '
    .. 'FROM temp.map_%s)'):format(name, name))
  if lost ~= 0 then -- nothing of it stays: all of this is one transaction
    blame.raise(('%d rows of the table %s have no place here; nothing was merged'):format(lost,
      name), 'EFORMAT')
  end
end

-- -- Points -----------------------------------------------------------

-- A point done there and not here is done here now; an open one that failed there has failed.
local SETTLE = [[/* settle points */
  UPDATE main.trial SET (state, best_attempt, reused, again, passes) = (SELECT s.state, a.dst,
      s.reused, s.again, s.passes FROM src.trial s JOIN temp.map_trial m ON m.src = s.id
      LEFT JOIN temp.map_attempt a ON a.src = s.best_attempt WHERE m.dst = trial.id)
  WHERE id IN (SELECT m.dst FROM src.trial s JOIN temp.map_trial m ON m.src = s.id
    JOIN main.trial d ON d.id = m.dst
    WHERE s.state NOT IN ('pending', 'running')
      AND (d.best_attempt IS NULL OR d.state <> 'ok' AND s.state = 'ok')
      AND (d.state <> 'ok' OR s.state = 'ok')
      AND (s.best_attempt IS NOT NULL OR d.state <> s.state)
      AND (d.state IN ('pending', s.state) OR s.state = 'ok'))]]
-- One that waits for its next pass there and has fewer here goes on from there.
local PARTLY = [[/* points between passes */
  UPDATE main.trial SET (best_attempt, passes, turn) = (SELECT a.dst, s.passes, s.turn
      FROM src.trial s JOIN temp.map_trial m ON m.src = s.id
      JOIN temp.map_attempt a ON a.src = s.best_attempt WHERE m.dst = trial.id)
  WHERE state = 'pending' AND id IN (SELECT m.dst FROM src.trial s
    JOIN temp.map_trial m ON m.src = s.id JOIN main.trial d ON d.id = m.dst
    JOIN temp.map_attempt a ON a.src = s.best_attempt WHERE s.passes > d.passes)]]
local IMPLIED = [[/* witnesses */
  UPDATE main.trial SET implied_by = (SELECT w.dst FROM src.trial s
      JOIN temp.map_trial m ON m.src = s.id JOIN temp.map_trial w ON w.src = s.implied_by
      WHERE m.dst = trial.id)
  WHERE state = 'implied' AND implied_by IS NULL]]
local TRIES = [[/* count tries */
  UPDATE main.trial SET tries = (SELECT max(n) FROM main.attempt WHERE trial_id = trial.id)
  WHERE tries < (SELECT max(n) FROM main.attempt WHERE trial_id = trial.id)]]
local FINISHED = [[/* finished sweeps */
  UPDATE main.sweep SET state = 'done'
  WHERE state <> 'done' AND id IN (SELECT dst FROM temp.map_sweep)
    AND NOT EXISTS (SELECT 1 FROM main.trial t WHERE t.sweep_id = sweep.id
      AND t.state IN ('pending', 'running'))]]

-- Sweeps of one name that were not measured alike, or were not the same one.
local APART = [[/* sweeps apart */ SELECT s.name AS was, names.name AS here, s.base, p.version,
    (SELECT group_concat(DISTINCT o.version) FROM main.sweep w JOIN main.protocol o
      ON o.id = w.protocol_id WHERE w.base = s.base AND o.version <> p.version) AS others
  FROM src.sweep s JOIN temp.names ON names.uuid = s.uuid
  JOIN src.protocol p ON p.id = s.protocol_id ORDER BY s.id]]

-- What whoever merges should know of the names that came.
local function notes_of(db)
  local notes = {}
  for _, s in ipairs(db:query(APART)) do
    if s.here ~= s.was then
      notes[#notes + 1] = ('its sweep %s is another one than the %s that is here, and is called %s')
        :format(s.was, s.was, s.here)
    end
    if s.others then
      notes[#notes + 1] = ('%s was measured by protocol %d, others of the name %s by %s: pictures '
        .. 'do not mix them, and compare gives no verdict between them'):format(s.here, s.version,
        s.base, s.others)
    end
  end
  return notes
end

local function take(db)
  local counts = {}
  name_sweeps(db)
  counts.notes = notes_of(db)
  for _, t in ipairs(TABLES) do
    local name, key, references = t[1], t[2], t[3]
    counts[#counts + 1] = { name = name,
      n = db:run('/* merge ' .. name .. ' */ ' .. copying(db, name, key, references)) }
    if key then map(db, name, key, references) end
  end
  db:run [[/* notes of people */ INSERT OR IGNORE INTO main.meta SELECT key, value FROM src.meta
    WHERE key GLOB 'note *']]
  db:run(SETTLE)
  db:run(PARTLY)
  db:run(IMPLIED)
  db:run(TRIES)
  db:run(FINISHED)
  return counts
end

local function drop_maps(db)
  for _, row in ipairs(db:query [[/* temp tables */ SELECT name FROM temp.sqlite_schema
      WHERE type = 'table']]) do
    db:exec('DROP TABLE temp.' .. row.name, 'drop')
  end
end

--- Take all rows of another database.
-- >> merge.take(st, 'shard2.db')
---@param st table open for writing
---@param path string a results database of this version
---@return table counts in order, each { name =, n = rows that are new }; notes: sentences, what
---  sweeps are called here, and which were measured by another version of the protocol
-- Raises EARG for st's own file, EFORMAT for what is no database of this version.
function M.take(st, path)
  local place = require 'ridge.store.place'
  if place.real(path) == place.real(st.path) then
    blame.raise(path .. ' is the database that is merged into', 'EARG')
  end
  -- opened once on its own: everything that can be wrong with a file is found and said there
  require('ridge.store').open(path, 'read'):close()
  local db = st.db
  local uri = 'file:' .. place.real(path):gsub('[^%w/._-]', function(c)
    return ('%%%02X'):format(c:byte())
  end) .. '?mode=ro'
  -- TEMP views look into tables whose names mean others now
  for _, row in ipairs(db:query [[/* views */ SELECT name FROM temp.sqlite_schema
      WHERE type = 'view']]) do
    db:exec(('DROP VIEW temp."%s"'):format((row.name:gsub('"', '""'))), 'drop view')
  end
  db:run('/* attach */ ATTACH ? AS src', uri)
  local ok, result = pcall(function()
    return st:within(function() return db:stops(take) end)
  end)
  pcall(drop_maps, db)
  db:run '/* detach */ DETACH src'
  if not ok then error(result, 0) end
  return result
end

return M
