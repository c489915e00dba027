-- SPDX-License-Identifier: MIT
--- Paths that were measured to be the fastest, as rows: of a machine, for the versions of what
--- computes. Rows are only added; the newest of a problem counts.

local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- A clock that was wrong must not have the last word for ever: what claims to be of later than this
-- from now is left out.
local DAY = 86400e6 -- microseconds

local ADD = [[/* add choice */ INSERT OR IGNORE INTO main.choice(uuid,machine_id,versions,operation,
  problem,path,standard,rounds,times,at) VALUES(?,?,?,?,?,?,?,?,?,?)]]

--- Keep choices; what is kept already stays one row, in whatever file it is.
---@param st table store open for writing
---@param machine_id integer
---@param versions table path to text, what the times are of
---@param list table each operation ('product', 'costs', 'passes', 'epilogue'), problem, path,
---  standard (texts), rounds, times (by path: numbers by name), at (microseconds since 1970)
---@return integer n rows that are new
function M.add(st, machine_id, versions, list)
  versions = canonical.encode(versions)
  return st:within(function()
    local db, n = st.db, 0
    local machine = db:value('/* address */ SELECT hex(fp) FROM main.machine WHERE id = ?',
      machine_id)
    for _, c in ipairs(list) do
      local uuid = canonical.hash { machine = machine, versions = versions,
        operation = c.operation, problem = c.problem, at = c.at }
      n = n + db:run(ADD, sqlite.blob(uuid), machine_id, versions, c.operation, c.problem, c.path,
        c.standard, c.rounds, canonical.encode(c.times), c.at)
    end
    return n
  end)
end

--- The number of the last row: those up to there are the same for whoever asks later.
---@param st table
---@return integer id 0 where there is none
function M.last(st)
  return st.db:value '/* last choice */ SELECT coalesce(max(id), 0) FROM main.choice'
end

local NEWEST = [[/* newest choices */ SELECT problem, path, standard, rounds, times, max(at) AS at
  FROM main.choice WHERE machine_id = ?1 AND versions = ?2 AND operation = ?3 AND at <= ?4
  AND id <= ?5 GROUP BY problem ORDER BY problem]]
local OTHERS = [[/* other choices */ SELECT count(*) FROM (SELECT 1 FROM main.choice
  WHERE machine_id = ?1 AND versions = ?2 AND id <= ?5 AND (at > ?4
  OR operation NOT IN (SELECT value FROM json_each(?3))) GROUP BY operation, problem)]]

-- Read when somebody asks; nil where nobody can.
local function reader(text)
  return function()
    local ok, times = pcall(canonical.decode, text)
    return ok and times or nil
  end
end

--- The newest choice of each problem of an operation.
---@param st table
---@param machine_id integer
---@param versions table path to text: others are left out
---@param operation string 'product' or 'costs'
---@param last integer|nil rows up to this number; all when left out
---@return table list as `add` takes them, but times is a function that gives them, nil where a row
---  has none that can be read
function M.newest(st, machine_id, versions, operation, last)
  local list = st.db:query(NEWEST, machine_id, canonical.encode(versions), operation,
    clock.now_us() + DAY, last or 2 ^ 53)
  for _, row in ipairs(list) do row.times = reader(row.times) end
  return list
end

--- How many problems are of none of these operations, or have rows that claim to be of a time to
--- come.
---@param st table
---@param machine_id integer
---@param versions table path to text: others are left out
---@param operations string[]
---@param last integer|nil rows up to this number; all when left out
---@return integer
function M.others(st, machine_id, versions, operations, last)
  return st.db:value(OTHERS, machine_id, canonical.encode(versions), canonical.encode(operations),
    clock.now_us() + DAY, last or 2 ^ 53)
end

local LIST = [[/* list choices */ SELECT m.cpu, c.versions, c.operation, c.problem, c.path,
  c.standard, c.rounds, c.times, max(c.at) AS at
  FROM main.choice c JOIN main.machine m ON m.id = c.machine_id
  WHERE (?1 IS NULL OR c.machine_id = ?1) AND (?2 IS NULL OR c.versions = ?2)
  GROUP BY c.machine_id, c.versions, c.operation, c.problem
  ORDER BY m.cpu, c.machine_id, c.versions, c.operation, c.problem]]

--- The newest choice of each problem, as people read it: whatever operation, and whenever it claims
--- to be of.
---@param st table
---@param machine_id integer|nil of all when left out
---@param versions table|nil path to text; all when left out
---@return table list each cpu, versions (text), operation, problem, path, standard, rounds, at, and
---  times, a function as of `newest`
function M.list(st, machine_id, versions)
  local list = st.db:query(LIST, machine_id, versions and canonical.encode(versions) or nil)
  for _, row in ipairs(list) do row.times = reader(row.times) end
  return list
end

return M
