-- SPDX-License-Identifier: MIT
--- Two kinds of points of a sweep held against each other, pair by pair: `sw:ab` and `ridge ab`.
--
-- Nothing stored is compared here: each pair is set up and timed again, in paired blocks
-- (ridge.measure.ab).  With many pairs some differ by chance, so the p values are corrected for
-- their number.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local choices = require 'ridge.sweep.choices'
local comparison = require 'ridge.store.comparison'
local measure = require 'ridge.measure.ab'
local options = require 'ridge.options'
local paired = require 'ridge.measure.paired'
local point = require 'ridge.sweep.point'
local space = require 'ridge.sweep.space'
local store = require 'ridge.store'
local verdicts = require 'ridge.sweep.verdicts'

local M = {}

local SPEC = {
  a = { 'table', required = true, doc = 'parameters that say which points are a' },
  b = { 'table', required = true, doc = 'parameters that say which points are b' },
  match = { 'table', doc = 'parameters in which a pair agrees; all others when left out' },
  phases = { 'table', doc = 'names of the phases; all when left out' },
  db = { 'string', doc = 'database file; else RIDGE_DB, else results/ridge.db' },
  keep = { 'boolean', default = true, doc = 'store the comparisons' },
  choices = { 'boolean', doc = 'take the paths that ridge autotune found; else RIDGE_CHOICES' },
  origin = { 'table', doc = 'recipe, argv: what other processes run to make the candidates' },
  progress = { 'function', doc = 'called with a line of text now and then' },
  lab = { 'table', doc = 'ridge.sweep.lab, or what stands in for it' },
}

-- Those that go on to measure.ab as they are.
local FORWARD = { processes = true, rigorous = true, blocks = true, looks = true, margin = true,
                  slot_ns = true, check = true, tolerance = true, protocol = true, seed = true,
                  services = true }

-- A share of wrong calls among all calls.
local Q = 0.05

local function split(given)
  local own, forward = {}, {}
  for name, value in pairs(given) do
    if FORWARD[name] then forward[name] = value else own[name] = value end
  end
  own = options.check(SPEC, own, 'sw:ab')
  forward = measure.options(forward, 'sw:ab')
  return own, forward
end

-- -- Pairs --------------------------------------------------------------------------------

local function agrees(params, wanted)
  for name, value in pairs(wanted) do
    if params[name] ~= value then return false end
  end
  return true
end

local function known_names(sw)
  local names = {}
  for name in pairs(sw.spec.space) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function check_names(sw, list, what)
  local names = known_names(sw)
  for _, name in ipairs(list) do
    if sw.spec.space[name] == nil then
      local near = blame.near(name, names)
      blame.raise(('sw:ab: %s names %s, which is no parameter%s; known: %s'):format(what,
        tostring(name), near and (" (did you mean '%s'?)"):format(near) or '',
        table.concat(names, ', ')), 'EARG', 'sw:ab')
    end
  end
end

local function keys(t)
  local out = {}
  for name in pairs(t) do out[#out + 1] = name end
  table.sort(out)
  return out
end

-- Parameters that a and b share, when nobody says in which they must agree.
local function default_match(sw, a, b)
  local out = {}
  for _, name in ipairs(known_names(sw)) do
    if a[name] == nil and b[name] == nil then out[#out + 1] = name end
  end
  return out
end

local function pick(params, names)
  local out = {}
  for _, name in ipairs(names) do out[name] = params[name] end
  return out
end

local function by_match(sw, wanted, match, which)
  local found, order = {}, {}
  for _, trial in ipairs(sw.plan.trials) do
    if trial.role == 'point' and agrees(trial.params, wanted) then
      local key = canonical.encode(pick(trial.params, match))
      if found[key] then
        blame.raise(('sw:ab: several points of %s agree in %s: %s and %s; say more in %s or match')
          :format(which, table.concat(match, ', '), space.label(found[key]),
          space.label(trial.params), which), 'EARG', 'sw:ab')
      end
      found[key], order[#order + 1] = trial.params, key
    end
  end
  return found, order
end

-- Numbers by size, words by the alphabet, one parameter after the other.
local function before(match)
  return function(x, y)
    for _, name in ipairs(match) do
      local u, v = x.match[name], y.match[name]
      if u ~= v then
        if type(u) == 'number' and type(v) == 'number' then return u < v end
        return tostring(u) < tostring(v)
      end
    end
    return false
  end
end

--- The pairs of points that two descriptions make.
---@param sw table  a declared sweep
---@param a table   parameters and their values
---@param b table
---@param match string[]|nil  parameters in which both points of a pair agree
---@return table[] pairs  each a, b (all parameters) and match (those they agree in)
function M.pairs(sw, a, b, match)
  check_names(sw, keys(a), 'a')
  check_names(sw, keys(b), 'b')
  if match then check_names(sw, match, 'match') end
  match = match or default_match(sw, a, b)
  local as, order = by_match(sw, a, match, 'a')
  local bs = by_match(sw, b, match, 'b')
  local out = {}
  for _, key in ipairs(order) do
    if bs[key] then
      out[#out + 1] = { a = as[key], b = bs[key], match = pick(as[key], match) }
    end
  end
  table.sort(out, before(match))
  if #out == 0 then
    blame.raise(('sw:ab: no point with %s has a partner with %s'):format(space.label(a),
      space.label(b)), 'EARG', 'sw:ab')
  end
  return out
end

-- -- Candidates ------------------------------------------------------------------------------

local function copy(params)
  local out = {}
  for name, value in pairs(params) do out[name] = value end
  return out
end

-- Set up a point as the sweep would; what is to be timed, by phase. What was checked once is not
-- checked again.
local function make(sw, params, lab, seed, again)
  local spec, m = sw.spec, point.new(params, lab, lab.live_bytes())
  lab.seed(seed)
  local ok, err = pcall(function()
    local context = spec.setup and spec.setup(copy(params), m)
    if spec.check and not again then
      local good, why = spec.check(copy(params), context)
      if good == false or good == nil and why ~= nil then
        blame.raise(('%s: check: %s'):format(space.label(params),
          why and tostring(why) or 'the result is wrong'))
      end
    end
    spec.measure(copy(params), context, m)
    m.context = context
  end)
  if not ok then
    local reason = point.infeasible(err)
    if reason then blame.raise(('%s: infeasible: %s'):format(space.label(params), reason)) end
    error(err, 0)
  end
  local list, timed = {}, m:plans ''
  for _, phase in ipairs(m.phases) do
    if phase.plan ~= nil then
      local given = timed[#list + 1]
      list[#list + 1] = { name = phase.name, plan = given.plan, cost = given.cost,
                          zeros = given.zeros }
    end
  end
  return list, m
end

--- What is to be timed of one point, made here: what ridge.measure.fresh takes.
---@param sw table
---@param params table
---@param lab table    ridge.sweep.lab
---@param seed integer of its draws
---@return table[] list  name (phase), a (plan, cost, zeros)
function M.single(sw, params, lab, seed)
  local list = { keep = {} }
  local made, keep = make(sw, params, lab, seed)
  for i, each in ipairs(made) do list[i] = { name = each.name, a = each } end
  list.keep = keep
  return list
end

local function candidates(sw, pair, lab, phases, again)
  local as, keep_a = make(sw, pair.a, lab, sw.spec.seed, again)
  local bs, keep_b = make(sw, pair.b, lab, sw.spec.seed, again)
  local wanted, list = {}, {}
  for _, name in ipairs(phases or {}) do wanted[name] = true end
  for _, a in ipairs(as) do
    for _, b in ipairs(bs) do
      if a.name == b.name and (not phases or wanted[a.name]) then
        list[#list + 1] = { name = a.name, a = { plan = a.plan }, b = { plan = b.plan } }
      end
    end
  end
  if #list == 0 then
    blame.raise(('sw:ab: %s and %s share no phase%s'):format(space.label(pair.a),
      space.label(pair.b), phases and ' of ' .. table.concat(phases, ', ') or ''), 'EARG',
      'sw:ab')
  end
  list.keep = { keep_a, keep_b }   -- what the plans read lives as long as they do
  return list
end

--- Make the candidates of a pair: one for each phase that both have.
---@param sw table
---@param pair table  a and b, parameters
---@param lab table   ridge.sweep.lab
---@param phases string[]|nil  only these
---@return table[] list  what ridge.measure.fresh takes: name, a, b; and again, which sets both
---  points up anew
function M.candidates(sw, pair, lab, phases)
  local list = candidates(sw, pair, lab, phases)
  list.again = function() return candidates(sw, pair, lab, phases, true) end
  return list
end

-- -- Comparing -----------------------------------------------------------------------------------

local function here(sw, pair, own, forward, f)
  return measure.with_candidates(M.candidates(sw, pair, own.lab, own.phases), forward, f)
end

local function elsewhere(sw, pair, own, forward, f)
  local source = { module = 'ridge.cli.remote', spec = canonical.encode { origin = own.origin,
    sweep = sw.name, a = pair.a, b = pair.b, phases = own.phases and canonical.list(own.phases) } }
  return measure.with_source(source, forward, f)
end

-- The machine is ours alone while a pair is timed; between pairs others may have it.
local function take(own, lease)
  if not lease then return end
  if own.progress and not lease:try_shared() then
    own.progress 'waiting: another process times on this machine'
  end
  lease:exclusive()
end

-- All phases of one pair.
local function compare_pair(sw, pair, own, forward, results, lease)
  local way = own.origin and elsewhere or here
  take(own, lease)
  local ok, err = pcall(way, sw, pair, own, forward, function(runners, around)
    for _, name in ipairs(runners[1]:names()) do
      local label = space.label(pair.match)
      forward.progress = own.progress and function(text)
        own.progress(('%s %s: %s'):format(label, name, text))
      end
      local found = measure.compare(runners, name, forward, around)
      found.pair, found.phase, found.params = pair.match, name, pair
      results[#results + 1] = found
    end
  end)
  if lease then lease:drop() end
  if not ok then error(err, 0) end
end

-- The share of wrong calls among many: what was called by chance is open again.
local function correct(results)
  local ps = {}
  for i, found in ipairs(results) do ps[i] = found.p end
  for i, q in ipairs(paired.benjamini_hochberg(ps)) do
    local found = results[i]
    found.q = q
    if q > Q and (found.verdict == 'faster' or found.verdict == 'slower') then
      found.verdict, found.needed = 'open', 2 * found.blocks / found.procs
    end
  end
end

local function keep(sw, own, results)
  local st = store.open(own.db or store.default_path(), 'write')
  local ok, err = pcall(function()
    local facts = own.lab.facts()
    st:within(function()
      local env = copy(facts.env)
      env.machine_id = st:machine(facts.machine)
      env.device_id = st:device(env.machine_id, facts.device)
      env.build_id = st:build(facts.build)
      local env_id = st:env(env)
      for _, found in ipairs(results) do
        found.id = comparison.add(st, found, { phase = found.phase, a = found.params.a,
          b = found.params.b, sweep = sw.name, env_id = env_id, q = found.q })
      end
    end)
  end)
  st:close()
  if not ok then error(err, 0) end
end

-- From the database that the comparisons go to; other processes are told what is in force here.
local function take_choices(own)
  local st = store.open(own.db or store.default_path(), 'write')
  local ok, last, said = pcall(choices.before, st, own.lab, own.choices)
  st:close()
  if not ok then error(last, 0) end
  if said and own.progress then own.progress(said) end
end

--- Compare the points that `a` describes with those that `b` describes.
---@param sw table     a declared sweep
---@param given table  a, b, match, phases, db, keep, origin, progress, lab, and what measure.ab
---  takes
---@return table[] results  as of measure.ab, with pair (the parameters agreed in), phase, q, id
function M.run(sw, given)
  local own, forward = split(given)
  own.lab = own.lab or require('ridge.sweep.device').lab(sw.spec.device)
  local chosen = M.pairs(sw, own.a, own.b, own.match)
  -- a database that cannot be written is noticed before the work
  if own.keep then take_choices(own) end
  local results, interrupted, lease = {}, nil, own.lab.lease()
  for _, pair in ipairs(chosen) do
    local ok, err = pcall(compare_pair, sw, pair, own, forward, results, lease)
    if not ok then
      interrupted = err
      break
    end
  end
  if lease then lease:close() end
  correct(results)
  -- what was compared before an interrupt or an error is kept
  if own.keep and #results > 0 then keep(sw, own, results) end
  if interrupted then error(interrupted, 0) end
  return verdicts.verdicts(results)
end

return M
