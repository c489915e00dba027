-- SPDX-License-Identifier: MIT
-- What makes two sweeps the same one: their name and the hash of recipe, arguments, space, protocol
-- and seed. The uuid comes from that content, so shards and merged files agree without talking.
--
-- The same name with other content is an error that says what changed; `new` starts another
-- generation, called base-2, base-3 ...

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- What changed -------------------------------------------------------------------------------

local function brief(value)
  local text = value == nil and 'nothing' or canonical.encode(value)
  return #text > 60 and text:sub(1, 57) .. '...' or text
end

-- "batch: 128 -> 256" for each key that differs
local function differences(was, is)
  local keys, out = {}, {}
  for key in pairs(was) do keys[key] = true end
  for key in pairs(is) do keys[key] = true end
  local sorted = {}
  for key in pairs(keys) do sorted[#sorted + 1] = key end
  table.sort(sorted)
  for _, key in ipairs(sorted) do
    local a, b = was[key], is[key]
    if a == nil or b == nil or canonical.encode(a) ~= canonical.encode(b) then
      out[#out + 1] = ('%s: %s -> %s'):format(key, brief(a), brief(b))
    end
  end
  return table.concat(out, '; ')
end

--- In what two sweeps differ.
---@param row table recipe_sha, args, space, protocol (JSON), seed
---@param wanted table likewise, and recipe_name
---@return string text 'the arguments (lr: 0.1 -> 0.2), the seed (1 -> 2)'; '' where in nothing
function M.changes(row, wanted)
  local out = {}
  if row.recipe_sha ~= wanted.recipe_sha then
    out[#out + 1] = ('the recipe (%s)'):format(wanted.recipe_name)
  end
  local function compare(what, was, is)
    if was ~= is then
      out[#out + 1] = ('the %s (%s)'):format(what,
        differences(canonical.decode(was), canonical.decode(is)))
    end
  end
  compare('arguments', row.args, wanted.args)
  if row.space ~= wanted.space then
    local was, is = canonical.decode(row.space), canonical.decode(wanted.space)
    local detail = differences(was.params or {}, is.params or {})
    if detail == '' then detail = ('%s -> %s points'):format(was.points, is.points) end
    out[#out + 1] = ('the space (%s)'):format(detail)
  end
  compare('protocol', row.protocol, wanted.protocol)
  if row.seed ~= wanted.seed then
    out[#out + 1] = ('the seed (%s -> %s)'):format(row.seed, wanted.seed)
  end
  return table.concat(out, ', ')
end

local function same(row, wanted)
  return row.recipe_sha == wanted.recipe_sha and row.args == wanted.args
    and row.space == wanted.space and row.protocol == wanted.protocol and row.seed == wanted.seed
end

-- Rows ---------------------------------------------------------------------------------------

local GENERATIONS = [[/* generations of a sweep */
  SELECT s.id, s.uuid, s.name, s.generation, s.state, s.args, s.space, s.seed, s.n_rejected,
    s.rules, r.sha AS recipe_sha, p.json AS protocol
  FROM sweep s JOIN recipe r ON r.id = s.recipe_id JOIN protocol p ON p.id = s.protocol_id
  WHERE s.base = ? ORDER BY s.generation DESC]]

--- Where a point belongs when machines share a sweep: from its content alone, so that all agree.
---@param sha string the address of its parameters
---@return integer number its remainder by the number of shards is the shard, from 0
function M.shard_of(sha)
  local a, b, c, d = sha:byte(1, 4)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- Later generations take the next name that is free: somebody may have called a sweep base-2.
local function create(st, wanted, generation)
  local db, name = st.db, nil
  local function taken()
    name = generation == 1 and wanted.name or ('%s-%d'):format(wanted.name, generation)
    -- in any case: each sweep has a view, whose name has none for SQLite
    return db:value('/* name taken */ SELECT name FROM sweep WHERE name = ? COLLATE NOCASE', name)
  end
  while taken() and generation > 1 do generation = generation + 1 end
  local other = taken()
  if other then
    blame.raise(('%s already has a sweep called %q%s'):format(st.path, other, other == name and ''
      or (', which differs from %q in case only'):format(name)), 'EARG')
  end
  local uuid = canonical.hash { name = wanted.name, generation = generation,
    recipe = wanted.recipe, args = wanted.args, space = wanted.space,
    protocol = wanted.protocol, seed = wanted.seed }
  local id = db:insert('sweep', { uuid = sqlite.blob(uuid), name = name, base = wanted.name,
    generation = generation, recipe_id = st:recipe(wanted.recipe_name, wanted.recipe),
    protocol_id = st:protocol(canonical.decode(wanted.protocol)), args = wanted.args,
    space = wanted.space, strategy = wanted.strategy or 'grid', seed = wanted.seed,
    n_rejected = wanted.n_rejected, rules = wanted.rules, created = clock.now_us() })
  for _, trial in ipairs(wanted.trials) do
    local config_id, sha = st:config(trial.params)
    -- straight by hand: a table for each of ten thousand trials would be hashed in vain
    db:run([[/* insert trial */ INSERT INTO trial(uuid,sweep_id,config_id,rep,role,ord,shard)
      VALUES(?,?,?,?,?,?,?)]],
      sqlite.blob(canonical.address(uuid .. sha .. trial.role .. trial.rep)),
      id, config_id, trial.rep, trial.role, trial.ord, M.shard_of(sha))
  end
  return { id = id, uuid = uuid, name = name, generation = generation, state = 'open' }
end

local reserved

--- Refuse names that cannot be the name of a view.
---@param name string
function M.check_name(name)
  reserved = reserved or schema.reserved()
  if type(name) ~= 'string' then
    blame.raise(("the name comes first: ridge.sweep 'widths' { space = ..., measure = ... }; here "
      .. 'is a %s in its place'):format(type(name)), 'EARG')
  end
  if not name:find '^[%w_][%w_.%-]*$' or #name > 60 then
    blame.raise(('a sweep is named by letters, digits, "_", "-" and ".", not %q'):format(name),
      'EARG')
  end
  if reserved[name:lower()] or name:lower():find '^sqlite_' then
    blame.raise(('%q is the name of a table; call the sweep something else'):format(name), 'EARG')
  end
end

--- Find the sweep of this content, or make it with all its trials.
---@param st table store open for writing
---@param wanted table name, recipe_name, recipe (source), args, space, protocol (canonical JSON),
---  seed, strategy, n_rejected, rules (canonical JSON), trials (each params, role, rep, ord)
---@param new boolean|nil start another generation instead
---@return table sweep id, uuid, name, generation, state
---@return boolean made
function M.ensure(st, wanted, new)
  M.check_name(wanted.name)
  wanted.recipe_sha = canonical.address(wanted.recipe)
  return st:within(function()
    local rows = st.db:query(GENERATIONS, wanted.name)
    if not new then
      for _, row in ipairs(rows) do
        if same(row, wanted) then
          if wanted.rules and row.rules ~= wanted.rules then -- how to go on, not what it is
            st.db:run('/* new rules */ UPDATE sweep SET rules=? WHERE id=?', wanted.rules, row.id)
          end
          return row, false
        end
      end
      if rows[1] then
        blame.raise(('the sweep %q in %s was made with something else; changed: %s. Give --new (in '
          .. 'Lua: run{ new = true }) to start another beside it, or undo the change to go on '
          .. 'with it'):format(wanted.name, st.path, M.changes(rows[1], wanted)), 'EARG')
      end
    end
    return create(st, wanted, rows[1] and rows[1].generation + 1 or 1), true
  end)
end

--- For a worker that runs the recipe again: is this sweep the one that it was started for?
---@param st table
---@param uuid string of the sweep that is wanted
---@param wanted table as for `ensure`
---@return table|nil sweep nil when the recipe has declared another one: of another name, or another
---  generation of this one
function M.again(st, uuid, wanted)
  wanted.recipe_sha = canonical.address(wanted.recipe)
  local rows = st.db:query(GENERATIONS, wanted.name)
  for _, row in ipairs(rows) do
    if row.uuid == uuid then
      if same(row, wanted) then return row end
      for _, other in ipairs(rows) do
        if same(other, wanted) then return nil end
      end
      blame.raise(('a worker ran the recipe again, and the sweep %q was another one; changed: %s. '
        .. 'A recipe with several workers must declare the same each time'):format(row.name,
        M.changes(row, wanted)), 'EARG')
    end
  end
end

--- The sweep of a name, or of the newest generation of it; nil when there is none.
---@param st table
---@param name string
---@return table|nil sweep id, uuid, name, state
function M.find(st, name)
  return st.db:row([[/* find sweep */ SELECT id, uuid, name, state, seed, n_rejected FROM main.sweep
    WHERE name = ?1 OR base = ?1 ORDER BY (name = ?1) DESC, generation DESC LIMIT 1]], name)
end

return M
