-- SPDX-License-Identifier: MIT
--- Bringing a file of an older schema up to this one.
--
-- Each step runs in a transaction of its own that ends with the new version number, so a process
-- that dies half-way leaves a file of the version before or after, never between. A copy of the
-- file as it was is made first, because a step cannot be taken back.

local blame = require 'ridge.blame'
local place = require 'ridge.store.place'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'

local M = {}

local function version_of(db) return db:value '/* version */ PRAGMA main.user_version' end

-- What tells one database from another.
local function content_of(db)
  local said = {}
  for i, name in ipairs { 'sweep', 'trial', 'attempt', 'worker' } do
    local row = db:row(([[/* content */ SELECT count(*) AS n, max(id) AS last, hex(min(uuid)) AS a,
      hex(max(uuid)) AS z FROM main.%s]]):format(name))
    said[i] = ('%s %s %s %s'):format(row.n, row.last, row.a, row.z)
  end
  return table.concat(said, '\n')
end

-- Is this the copy that a migration of this very file has made and did not live to use?
local function is_copy(db, path, version)
  local ok, same = pcall(function()
    local other = sqlite.open(path, 'frozen')
    local whole, result = pcall(function()
      return version_of(other) == version and content_of(other) == content_of(db)
    end)
    other:close()
    return whole and result
  end)
  return ok and same
end

-- Copy the file as it is, under a name that it gets only when it is whole; a copy of another file
-- that had this name stays.
local function keep(db, version)
  local copy, n = ('%s.v%d.bak'):format(db.path, version), 1
  db.lock:take()
  local ok, err = pcall(function()
    while place.exists(copy) do
      if is_copy(db, copy, version) then return end
      n = n + 1
      copy = ('%s.v%d-%d.bak'):format(db.path, version, n)
    end
    db:copy(copy, copy .. '.ridge.part') -- under the lock: what a killed process left is nobody's
  end)
  db.lock:drop()
  if not ok then error(err, 0) end
  return copy
end

local function step(db, to)
  db:transaction(function() db:stops(function()
    if version_of(db) >= to then return end -- another process was first
    db:exec(schema.STEPS[to], ('step to schema %d'):format(to))
    local broken = db:value '/* check step */ SELECT count(*) FROM pragma_foreign_key_check'
    if broken > 0 then
      blame.raise(('%s: the step to schema %d would break %d references; the file is as it was')
        :format(db.path, to, broken), 'EFORMAT')
    end
    db:exec(('PRAGMA user_version=%d'):format(to))
  end) end)
end

--- Take every step from the file's version to the newest; does nothing when it is there.
---@param db table open for writing
---@return integer from the version it had
---@return string|nil copy where the file as it was is kept; nil when nothing was to do
function M.run(db)
  local from = version_of(db)
  if from >= schema.VERSION then return from, nil end
  local copy = keep(db, from)
  for to = from + 1, schema.VERSION do step(db, to) end
  return from, copy
end

return M
