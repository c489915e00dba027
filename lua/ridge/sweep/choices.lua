-- SPDX-License-Identifier: MIT
--- The table of measured paths in a results database: what ridge.autotune found and what
--- ridge.backend.probe fitted on this machine is kept there, and taken from there by who comes
--- later.

local options = require 'ridge.options'
local plain = require 'ridge.plain'
local rows = require 'ridge.store.choices'
local store = require 'ridge.store'

local M = {}

-- a product or a convolution that was measured; a kind of products, fitted
local PRODUCT, CONV, COSTS = 'product', 'conv', 'costs'
local BUILT_IN = 'built in'
local DB = { db = { 'string', doc = 'database file; else RIDGE_DB, else results/ridge.db' } }

-- Where something is to be done with them: a sweep without a table does not load it.
local function choices() return require 'ridge.choices' end

local function fitted() return require 'ridge.fitted' end

local function plans() return require 'ridge.plan_choices' end

local function machine() return require('ridge.sweep.lab').facts().machine end

local function stored_of(r)
  return { operation = r.images and CONV or PRODUCT, problem = choices().problem(r), path = r.path,
    standard = r.standard, rounds = r.rounds, times = r.paths, at = r.at }
end

-- costs: nil where what is built in was no worse than what was fitted.
local function stored_costs(r)
  return { operation = COSTS, problem = fitted().kind(r), path = r.costs and 'fitted' or BUILT_IN,
    standard = BUILT_IN, rounds = r.products, times = r.costs or {}, at = r.at }
end

--- Keep what was measured in this process and is not kept yet, in an open database.
---@param st table store open for writing
---@param since number|nil only what was measured from then on, microseconds since 1970
---@return integer n rows that are new
function M.keep(st, since)
  local list = {}
  for _, r in ipairs(choices().all(nil, since)) do
    if r.at and r.rounds > 0 then list[#list + 1] = stored_of(r) end
  end
  for _, r in ipairs(fitted().probed()) do
    if r.at >= (since or 0) then list[#list + 1] = stored_costs(r) end
  end
  for _, row in ipairs(plans().all(since)) do list[#list + 1] = row end
  if #list == 0 then return 0 end
  return st:within(function()
    return rows.add(st, st:machine(machine()), choices().versions(), list)
  end)
end

-- Numbers of rows, put in force; what was fitted here later, or at the same time, is known.
local function put_costs(list)
  local at, put, known, skipped = {}, 0, 0, 0
  for _, r in ipairs(fitted().all()) do at[fitted().kind(r)] = r.at end
  for _, row in ipairs(list) do
    local r = fitted().parse_kind(row.problem)
    local costs = r and fitted().clean(row.times())
    if r and row.path == BUILT_IN then
      known = known + 1
    elseif not costs then
      skipped = skipped + 1
    elseif (at[row.problem] or -1) >= row.at then
      known = known + 1
    else
      r.costs, r.at, r.products = costs, row.at, row.rounds
      fitted().put(r)
      put = put + 1
    end
  end
  return put, known, skipped
end

--- Put what is stored of this machine in force, from an open database.
---@param st table
---@param opt table|nil machine (facts; this one's when left out), last (rows up to this number)
---@return table taken put = choices that are new to this process, fitted = kinds of products
---  whose numbers are, known = those that are as good here already, skipped = rows that this ridge
---  does not know
function M.take(st, opt)
  opt = opt or {}
  local taken = { put = 0, fitted = 0, known = 0, skipped = 0 }
  local id = st:find_machine(opt.machine or machine())
  if not id then return taken end
  local versions = choices().versions()
  local function newest(operation) return rows.newest(st, id, versions, operation, opt.last) end
  -- where the path of products is forced, what was found of them decides nothing
  local products = choices().decides_products()
  local list = products and newest(PRODUCT) or {}
  for _, row in ipairs(newest(CONV)) do list[#list + 1] = row end
  local put, unknown = choices().put(list)
  local fits, known, none = put_costs(products and newest(COSTS) or {})
  local operations = { PRODUCT, CONV, COSTS }
  taken.put, taken.fitted, taken.known = put, fits, #list - put - unknown + known
  for _, operation in ipairs(plans().OPERATIONS) do
    local kept = rows.newest(st, id, versions, operation, opt.last)
    local n = plans().take(operation, kept)
    operations[#operations + 1] = operation
    taken.put, taken.known = taken.put + n, taken.known + #kept - n
  end
  taken.skipped = rows.others(st, id, versions, operations, opt.last) + unknown + none
  return taken
end

--- Whether sweeps take what is stored, where nobody says: not with RIDGE_CHOICES=off.
---@return boolean
function M.wanted() return os.getenv 'RIDGE_CHOICES' ~= 'off' end

-- What was taken, as a sentence; nil where nothing is new.
local function sentence(taken)
  local parts = {}
  if taken.put > 0 then parts[1] = plain.count(taken.put, 'choice') .. ' of paths' end
  if taken.fitted > 0 then
    parts[#parts + 1] = ('what %d kinds of products take'):format(taken.fitted)
  end
  if #parts == 0 then return nil end
  local more = taken.skipped > 0
    and (', %d more that this ridge does not know'):format(taken.skipped) or ''
  return ('%s for this machine (ridge autotune)%s'):format(table.concat(parts, ' and '), more)
end

--- Take what is stored before something is measured into an open database.
---@param st table
---@param lab table ridge.sweep.lab, or what stands in for it
---@param wanted boolean|nil M.wanted() where nil
---@param last integer|nil rows up to this number: what a worker's parent saw
---@return integer last the number of the last row that counts; 0: none were taken
---@return string|nil sentence what to say of them; nil where nothing is new
function M.before(st, lab, wanted, last)
  if wanted == nil then wanted = M.wanted() end
  last = last or wanted and lab.take_choices and rows.last(st) or 0
  if last == 0 then return 0, nil end
  local taken = lab.take_choices(st, last)
  if not taken then return 0, nil end
  return last, sentence(taken)
end

-- Has somebody probed with the instructions and the threads that are in force?
local function is_probed(st, lab)
  local id = st:find_machine(lab.facts().machine)
  local now = require('ridge.backend').now()
  for _, row in ipairs(id and rows.newest(st, id, choices().versions(), COSTS) or {}) do
    local r = fitted().parse_kind(row.problem)
    if r and r.isa == now.isa and r.threads == now.threads then return true end
  end
  return false
end

--- Measure what products take, unless it is known of this machine, and keep it in an open database.
---@param st table store open for writing
---@param lab table ridge.sweep.lab, or what stands in for it
---@param wanted boolean|nil M.wanted() where nil
---@param opt table shapes (of each kind), say (called with a line of text now and then)
---@return table|nil found as ridge.backend.probe gives it; nil where nothing was measured
function M.probe(st, lab, wanted, opt)
  if wanted == nil then wanted = M.wanted() end
  if not wanted or not lab.take_choices or lab.device or not choices().decides_products()
    or is_probed(st, lab) then
    return nil
  end
  local since = require('ridge.store.clock').now_us()
  opt.say 'which library multiplies fastest'
  local found = require('ridge.backend').probe { shapes = opt.shapes, progress = opt.say }
  M.keep(st, since)
  return found
end

local OTHERS = [[/* points of other choices */ SELECT
    coalesce(sum(t.state NOT IN ('pending', 'running')), 0) AS done,
    coalesce(sum(t.state = 'pending' AND t.passes > 0), 0) AS begun
  FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
  JOIN main.env e ON e.id = a.env_id
  WHERE t.sweep_id = ?1 AND e.machine_id = ?2 AND a.outcome = 'ok'
  AND coalesce(CASE WHEN json_valid(e.vars) THEN json_extract(e.vars, '$.choices') END, '') <> ?3]]

--- What is to be said of points of a sweep that were measured on this machine by other choices than
--- those in force: they stay as they are, and those with some of their passes begin again.
---@param st table
---@param sweep_id integer
---@param machine_id integer
---@param now string|nil the choices in force, as `backend.now` tells them
---@return string|nil sentence nil where there are none
function M.others(st, sweep_id, machine_id, now)
  local n = st.db:row(OTHERS, sweep_id, machine_id, now or '')
  if n.done + n.begun == 0 then return nil end
  local parts = {}
  if n.done > 0 then parts[1] = plain.count(n.done, 'point') .. ' stay as they were measured' end
  if n.begun > 0 then
    parts[#parts + 1] = plain.count(n.begun, 'point') .. ' under way begin again'
  end
  return ('the choices of paths are others now than before: %s; --new measures all by the same')
    :format(table.concat(parts, ', '))
end

--- Keep what ridge.autotune and ridge.backend.probe found in this process in a results database,
--- for this machine and these versions of ridge and its libraries. Kept twice it is one row.
---@param opt table|nil db = file, made where there is none; else RIDGE_DB, else results/ridge.db
---@return integer n how many are new there
-- >> ridge.backend.save_choices{ db = 'choices.db' }
function M.save(opt)
  opt = options.check(DB, opt, 'backend.save_choices')
  return store.with(opt.db, 'write', function(st) return M.keep(st) end)
end

--- Let 'auto' take the paths that were measured on this machine and are kept in a results database:
--- the newest of each product, of these versions of ridge and its libraries. What was measured here
--- later stays; rows that this ridge does not know are skipped.
---@param opt table|nil db = file; else RIDGE_DB, else results/ridge.db
---@return table taken put = (new to this process), fitted = (kinds of products whose numbers are),
---  known = (as good here already), skipped =
-- >> ridge.backend.save_choices{ db = 'choices.db' }
-- >> return ridge.backend.load_choices{ db = 'choices.db' }.put
function M.load(opt)
  opt = options.check(DB, opt, 'backend.load_choices')
  return store.with(opt.db, 'read', function(st) return M.take(st) end)
end

return M
