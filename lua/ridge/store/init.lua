-- SPDX-License-Identifier: MIT
-- The results database: opening it safely, and the rows that say who measured and what.
--
-- Machines, devices, builds, environments, recipes and protocols are found by the hash of their
-- content, so that the same thing is one row however often it is met. Sweeps and their trials are
-- in ridge.store.queue, what a trial produced in ridge.store.record.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local canonical = require 'ridge.store.canonical'
local migrate = require 'ridge.store.migrate'
local place = require 'ridge.store.place'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'

local M = {}

local Store = {}
Store.__index = Store

-- Opening ------------------------------------------------------------------------------------

--- Where results go when nobody says: `RIDGE_DB`, else `results/ridge.db`.
---@return string path
function M.default_path()
  local path = os.getenv 'RIDGE_DB'
  return path and path ~= '' and path or 'results/ridge.db'
end

-- Refuse what SQLite would accept, or would explain badly.
local function check_file(path)
  local header = place.header(path)
  if header.kind == 'foreign' then
    blame.raise(('%s is not a results database: it is no SQLite file'):format(path), 'EFORMAT')
  elseif header.short then
    blame.raise(('%s is cut off: %d bytes of %d are there; restore a copy, or save what is left '
      .. 'with `sqlite3 %s .recover`'):format(path, header.size, header.expected, path), 'EFORMAT')
  end
end

-- Whose file it is: 'new' for one without any table, else the version of its schema.
local function examine(db, path)
  local id, version, tables
  db:snapshot(function() -- another process may be making the tables
    id = db:value '/* read application_id */ PRAGMA application_id'
    version = db:value '/* read user_version */ PRAGMA user_version'
    tables = db:value '/* count tables */ SELECT count(*) FROM main.sqlite_schema'
  end)
  if id == 0 and tables == 0 then return 'new' end
  if id ~= schema.APPLICATION_ID then
    blame.raise(('%s belongs to another program (application_id 0x%08x, %d tables); ridge leaves '
      .. 'it alone: give another name with --db'):format(path, id % 2 ^ 32, tables), 'EFORMAT')
  end
  return version
end

local function check_version(version, path)
  if version ~= 'new' and version > schema.VERSION then
    blame.raise(('%s was written by a newer ridge (schema %d, this one writes %d); it can be read '
      .. 'but not written here; update ridge, or measure into another file with --db')
      :format(path, version, schema.VERSION), 'ENOSUP')
  end
end

local function check_read_version(version, path)
  if version < schema.VERSION then
    blame.raise(('%s was written by an older ridge (schema %d, this one reads %d); open it for '
      .. 'writing once, with `ridge db migrate --db %s` or by measuring into it; a copy of it as '
      .. 'it is stays beside it'):format(path, version, schema.VERSION, path), 'ENOSUP')
  end
end

local function open_write(path)
  path = place.prepare(path)
  place.check_filesystem(path)
  if place.exists(path) then
    check_file(path)
    if not place.writable(path) then
      blame.raise(('%s is read-only for this user; make it writable, or name another with --db or '
        .. 'RIDGE_DB'):format(path), 'EIO')
    end
  end
  if not place.writable(place.folder(path)) then
    blame.raise(('the folder of %s is read-only for this user, and the log and the lock live there '
      .. 'too; make it writable, or name a database elsewhere with --db or RIDGE_DB'):format(path),
      'EIO')
  end
  local db = sqlite.open(path, 'write')
  local ok, err = pcall(function()
    check_version(examine(db, path), path)
    -- under the lock: changing the journal mode is a write
    db.lock:take()
    local set, why = pcall(db.exec, db, [[/* settings */ PRAGMA journal_mode=WAL;
      PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=0]])
    db.lock:drop()
    if not set then error(why, 0) end
    if examine(db, path) == 'new' then
      db:transaction(function()
        -- another process may have been first
        if examine(db, path) == 'new' then schema.create(db, M.version()) end
      end)
    end
    migrate.run(db)
  end)
  if not ok then
    db:close()
    error(err, 0)
  end
  return db, path
end

local function open_read(path)
  local real = place.real(path)
  if not real or not place.exists(real) then
    blame.raise(('no results database at %s'):format(path), 'EIO')
  end
  check_file(real)
  -- Readers of a log need its shared memory; where none can be made, the file is complete alone.
  local frozen = not place.writable(place.folder(real)) and not place.exists(real .. '-wal')
  local db = sqlite.open(real, frozen and 'frozen' or 'read')
  local ok, err = pcall(function()
    local version = examine(db, real)
    if version == 'new' then
      blame.raise(('%s is empty: nothing has been measured into it'):format(real), 'EFORMAT')
    end
    check_read_version(version, real)
    schema.views(db)
  end)
  if not ok then
    db:close()
    error(err, 0)
  end
  return db, real
end

--- Ridge's version for the file's history.
---@return string version
function M.version() return '0.1.0' end

--- Open a results database.
-- For reading, each sweep is a view of its name with one column for each parameter, phase and
-- metric. Refuses files of other programs and newer schemas (for writing), file systems without
-- locks, and damaged files, each with a sentence that says so.
-- >> local st = store.open('results/ridge.db', 'read')
---@param path string|nil default `store.default_path()`
---@param mode string|nil 'write' makes the file when missing, 'read' (default) never changes it
---@return table store
function M.open(path, mode)
  path = path or M.default_path()
  local open = mode == 'write' and open_write or open_read
  local db, real = open(path)
  return setmetatable({ db = db, path = real }, Store)
end

--- Open a results database for the time of one call.
---@param path string|nil default `store.default_path()`
---@param mode string|nil as for `open`
---@param fn function fn(store), called once
---@return any result what fn returned; the database is closed, also where fn raises
function M.with(path, mode, fn)
  if not blame.callable(fn) then
    blame.raise('store.with: a function is expected, got ' .. blame.show(fn), 'EARG')
  end
  local st = M.open(path, mode)
  local ok, result = pcall(fn, st)
  st:close()
  if not ok then error(result, 0) end
  return result
end

--- Close the database. Twice does nothing.
function Store:close() self.db:close() end

--- Run a function in a write transaction; inside one it just runs.
---@param fn function
---@return any ...
function Store:within(fn)
  if self.db.inside then return fn() end
  return self.db:transaction(fn)
end

-- Rows by content ----------------------------------------------------------------------------

local function by_content(self, into, key, address, values)
  return self:within(function()
    local id = self.db:value(('/* find %s */ SELECT id FROM %s WHERE %s = ?'):format(into, into,
      key), sqlite.blob(address))
    if id then return id end
    values[key] = sqlite.blob(address)
    return self.db:insert(into, values)
  end)
end

local function pick(facts, names)
  local out = {}
  for _, name in ipairs(names) do out[name] = facts[name] end
  return out
end

-- What stays the same when a machine is renamed, updated or started again.
local STABLE = { 'cpu', 'sockets', 'cores', 'threads', 'isa', 'l1d', 'l2', 'l3', 'virt' }
local MACHINE = { 'hostname', 'cpu', 'sockets', 'cores', 'threads', 'isa', 'l1d', 'l2', 'l3',
  'ram', 'os', 'kernel', 'virt' }

--- The row of a machine.
---@param facts table hostname, cpu, sockets, cores, threads, isa, l1d, l2, l3, ram, os, kernel,
---  virt; what is not known is left out
---@return integer id
function Store:machine(facts)
  return by_content(self, 'machine', 'fp', canonical.hash(pick(facts, STABLE)),
    pick(facts, MACHINE))
end

--- The row of a machine that something was measured on; nil where there is none. Changes nothing.
---@param facts table as for `machine`
---@return integer|nil id
function Store:find_machine(facts)
  return self.db:value('/* find machine */ SELECT id FROM main.machine WHERE fp = ?',
    sqlite.blob(canonical.hash(pick(facts, STABLE))))
end

--- The row of a device of a machine.
---@param machine_id integer
---@param facts table kind 'cpu', 'cuda' or 'sim', uuid, name, mem (bytes), facts (a table:
---  capability, l2, units, simulated)
---@return integer id
function Store:device(machine_id, facts)
  return self:within(function()
    local id = self.db:value([[/* find device */ SELECT id FROM device
      WHERE machine_id=? AND uuid=?]], machine_id, facts.uuid)
    if id then return id end
    local values = pick(facts, { 'kind', 'uuid', 'name', 'mem' })
    -- by the interface that it speaks: a simulated GPU, as its facts say, speaks CUDA's
    if values.kind == 'sim' then values.kind = 'cuda' end
    values.machine_id = machine_id
    values.facts = facts.facts and canonical.encode(facts.facts) or nil
    return self.db:insert('device', values)
  end)
end

--- The row of a device that something was measured on; nil where there is none. Changes nothing.
---@param machine table facts as for `machine`
---@param device table facts as for `device`
---@return integer|nil id
function Store:find_device(machine, device)
  return self.db:value([[/* find device */ SELECT d.id FROM device d
    JOIN machine m ON m.id = d.machine_id WHERE m.fp = ? AND d.uuid = ?]],
    sqlite.blob(canonical.hash(pick(machine, STABLE))), device.uuid)
end

--- The row of a build of ridge.
---@param facts table ridge (version), git, dirty, compiler, flags, debug, libs (a table)
---@return integer id
function Store:build(facts)
  local values = pick(facts, { 'ridge', 'git', 'dirty', 'compiler', 'flags', 'debug' })
  values.debug = values.debug or false
  values.libs = canonical.encode(facts.libs or {})
  return by_content(self, 'build', 'fp', canonical.hash(values), values)
end

local ENV = { 'governor', 'turbo', 'smt', 'aslr', 'thp', 'cpuset', 'cpu_quota' }

--- The row of everything that must be equal for two numbers to be comparable.
---@param facts table governor, turbo, smt, aslr, thp, cpuset, cpu_quota, vars (a table), and the
---  ids machine_id, build_id, device_id
---@return integer id
function Store:env(facts)
  local values = pick(facts, ENV)
  values.vars = canonical.encode(facts.vars or {})
  return self:within(function()
    local ids = self.db:row([[/* addresses of env */ SELECT hex(m.fp) AS machine,
      hex(b.fp) AS build, d.uuid AS device FROM machine m, build b, device d
      WHERE m.id=? AND b.id=? AND d.id=?]], facts.machine_id, facts.build_id, facts.device_id)
    local address = canonical.hash { values = values, machine = ids.machine, build = ids.build,
      device = ids.device }
    values.machine_id, values.build_id = facts.machine_id, facts.build_id
    values.device_id = facts.device_id
    return by_content(self, 'env', 'fp', address, values)
  end)
end

--- The rows of who measures, where, and under what conditions.
---@param facts table of ridge.sweep.lab: machine, device, build, env
---@return table ids machine_id, device_id, build_id, env_id
function Store:environment(facts)
  return self:within(function()
    local env = {}
    for name, value in pairs(facts.env) do env[name] = value end
    env.machine_id = self:machine(facts.machine)
    env.device_id = self:device(env.machine_id, facts.device)
    env.build_id = self:build(facts.build)
    return { machine_id = env.machine_id, device_id = env.device_id, build_id = env.build_id,
             env_id = self:env(env) }
  end)
end

--- The row of a recipe's source text.
---@param name string
---@param source string
---@return integer id
---@return string address
function Store:recipe(name, source)
  local address = canonical.address(source)
  return by_content(self, 'recipe', 'sha', address, { name = name, source = source }), address
end

--- The row of a measuring protocol.
---@param protocol table
---@return integer id
---@return string address
function Store:protocol(protocol)
  local json = canonical.encode(protocol)
  local address = canonical.address(json)
  return by_content(self, 'protocol', 'sha', address, { json = json,
    version = protocol.version or 1 }), address
end

--- The row of a set of parameters, with its typed copy.
---@param params table name to number, text or boolean
---@return integer id
---@return string address
function Store:config(params)
  local json = canonical.encode(params)
  local address = canonical.address(json)
  local db = self.db
  return self:within(function()
    local id = db:value('/* find config */ SELECT id FROM config WHERE sha=?', sqlite.blob(address))
    if id then return id, address end
    id = db:insert('config', { sha = sqlite.blob(address), params = json })
    for name, value in pairs(params) do
      local text = type(value) == 'string'
      db:run('/* insert param */ INSERT INTO param(config_id,name,num,txt) VALUES(?,?,?,?)', id,
        name, not text and value or nil, text and value or nil)
    end
    return id, address
  end)
end

-- Ceilings -----------------------------------------------------------------------------------

--- Add measured ceilings of a device.
---@param device_id integer
---@param list table each { name=, threads=, value=, unit=, ci_lo=, ci_hi= }
---@param at integer when, microseconds since 1970
function Store:add_ceilings(device_id, list, at)
  self:within(function()
    for _, c in ipairs(list) do
      self.db:run([[/* insert ceiling */ INSERT OR REPLACE INTO
        ceiling(device_id,name,threads,value,unit,ci_lo,ci_hi,at) VALUES(?,?,?,?,?,?,?,?)]],
        device_id, c.name, c.threads, c.value, c.unit, c.ci_lo, c.ci_hi, at)
    end
  end)
end

--- The newest ceilings of a device.
---@param device_id integer
---@return table list each { name=, threads=, value=, unit=, ci_lo=, ci_hi=, at= }
function Store:ceilings(device_id)
  return self.db:query([[/* newest ceilings */
    SELECT name, threads, value, unit, ci_lo, ci_hi, max(at) AS at FROM ceiling
    WHERE device_id=? GROUP BY name, threads ORDER BY name, threads]], device_id)
end

guard.all(Store)

return M
