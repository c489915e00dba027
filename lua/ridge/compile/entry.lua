-- SPDX-License-Identifier: MIT
--- One size of a compiled function: the recording of a call, and plans of it that were compared
--- with what the function computed.
--
-- A function that writes nothing is compared with the recorded call. One that writes (a training
-- step) has moved on by then: its plan is compared with a plan of the graph as recorded, from where
-- things stand, which are put back; and at the second call with the function itself, which runs
-- that step.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local arguments = require 'ridge.compile.arguments'
local graph = require 'ridge.graph'
local mode = require 'ridge.tensor.mode'
local passes = require 'ridge.graph_passes'
local plan = require 'ridge.plan'
local random = require 'ridge.random'
local record = require 'ridge.graph_record'
local timing = require 'ridge.compile.timing'
local trial = require 'ridge.graph_trial'

local M = {}

-- How far a plan may be from the function where passes may change rounding, over the largest number
-- of a result: an error is larger, and what layers of a net add up to is less.
local TOLERANCE = { f64 = 1e-9, f32 = 1e-4, f16 = 3e-2, bf16 = 6e-2 }

local function packed(...) return { n = select('#', ...), ... } end

-- Call f and list the streams of random numbers that it draws from, each where it stood.
local function watch_streams(f)
  local default = random.default()
  local list, met, before = { { stream = default, at = default:state() } }, {}, random.drawn
  random.drawn = function(generator)
    if before then before(generator) end
    if not met[generator] then
      met[generator] = true
      list[#list + 1] = { stream = generator, at = generator:state() }
    end
  end
  local results = packed(pcall(f))
  random.drawn = before
  return list, results
end

-- What a function that failed while it was recorded had written by then.
local function watched(f, seen)
  local function ended(ok, ...)
    seen.ended = ok
    if ok then return ... end
    seen.wrote = C.rg_record_wrote()
    error((...), 0)
  end
  return function(...) return ended(pcall(f, ...)) end
end

local function training_of(modules)
  local list = {}
  for _, module in ipairs(modules or {}) do
    list[#list + 1] = { module = module, training = module.training }
  end
  return list
end

-- Could a backward pass begin at one of the results: is something kept for it?
local function has_tape(results)
  local found, count = false, ffi.new 'int64_t[1]'
  for i = 1, results.n do
    trial.map(results[i], function(x)
      call.check(C.rg_grad_saved(x._t, nil, 0, count), 'compile')
      found = found or count[0] > 0
      return x
    end)
  end
  return found
end

--- Record a call of a function.
---@param f function
---@param args table list with n
---@return table|nil recording {graph, copies, results, stateful, draws, streams, ms, modules,
---  training, kept = the line of what it left outside, refused = why no plan may stand for it}
---@return string|nil why it could not be recorded
---@return table|nil seen then: results, where the function has run to its end; wrote: how often it
---  wrote to what was there before; misread: it read copies that are not what arguments were
function M.record(f, args)
  local r, seen = { copies = arguments.copies(args) }, {}
  local slot, made = ffi.new 'rg_graph *[1]', { in_place = true }
  local ms, streams, outcome = timing.once(function()
    return watch_streams(function()
      plan.settled_steps(record.call, slot, made, watched(f, seen), unpack(r.copies, 1, args.n))
        :release()
    end)
  end)
  if not outcome[1] then
    seen.results = seen.ended and made.held or nil
    for _, entry in ipairs(seen.results and {} or streams) do
      entry.stream:load_state(entry.at)
    end
    return nil, outcome[2], seen
  end
  r.ms, r.streams = ms, {}
  r.draws = streams[1].stream:offset() ~= streams[1].at.offset or #streams > 1
  for i = 2, #streams do r.streams[i - 1] = streams[i].stream end
  r.graph = graph.own(slot[0])
  r.graph._made = made
  r.results = made.held
  r.training = made.training
  -- what a backward pass through a result would read is held by that result
  local gradients, n_kept = false, has_tape(made.held) and -math.huge or -made.n_used
  for _, output in ipairs(r.graph:outputs()) do
    gradients = gradients or output.kind == 'gradient'
    n_kept = n_kept + (output.kind == 'kept' and 1 or 0)
    r.kept = output.kind == 'kept' and n_kept > 0 and (output.line or '') or r.kept
  end
  r.stateful = #r.graph:states() > 0 or gradients
  local unseen = arguments.unseen(r.graph, r.copies, args)
  if unseen then
    for _, entry in ipairs(streams) do entry.stream:load_state(entry.at) end
    return nil, unseen, { wrote = arguments.leaves(r.graph, r.copies) and 1 or 0, misread = true }
  end
  local written = arguments.written(r.graph, r.copies)
  arguments.hand_back(written, r.copies, args)
  r.refused = written[1]
    and ('it writes to its argument %d, and a plan to a copy'):format(written[1])
    or #r.graph:outputs() == 0 and not r.stateful and 'it computes nothing that is seen outside'
    or nil
  r.infers = mode.infers()
  r.modules = r.infers and {} or training_of(made.modules)
  return r
end

-- What the recorded call gave, or, where it has moved on, what a plan of the graph as it is does.
local function wanted(r)
  if r.wanted then return r.wanted end
  r.saved = trial.save(r.graph, r.streams)
  if not r.stateful and not r.draws then
    r.wanted = trial.outcome(r.saved, r.results)
  else
    local whole = r.graph:plan()
    r.wanted = trial.outcome(r.saved, packed(whole:run()))
    whole:release()
    trial.restore(r.saved)
  end
  return r.wanted
end

--- How far outcomes may be from each other.
---@param list Tensor[]
---@param exact boolean all passes keep every bit
---@param given number|nil
---@return number
function M.limit(list, exact, given)
  if exact or given then return given or 0 end
  local most = 0
  for _, x in ipairs(list) do most = math.max(most, TOLERANCE[x.dtype] or 0) end
  return most
end

-- Raise unless a plan gives what it should.
local function compare(r, made, exact, tolerance)
  local want = wanted(r)
  trial.restore(r.saved)
  local first, results = timing.once(function() return packed(made.plan:run()) end)
  local got = trial.outcome(r.saved, results)
  trial.restore(r.saved)
  local same, difference = trial.difference(want, got)
  local limit = M.limit(want, exact, tolerance)
  if not same and not (difference <= limit) then
    blame.raise(('its plan computes something else: off by %.2g of the largest number, where %s'):
      format(difference, limit == 0 and 'the bits should be the same'
        or ('%.2g would be rounding'):format(limit)), 'EARG', 'compile')
  end
  made.first_ms, made.same, made.difference = first, same, difference
end

--- A graph behind passes, and edits between and behind them.
---@param whole table graph
---@param names string[] passes
---@param edit table|nil as `make` takes it
---@return table graph
function M.optimized(whole, names, edit)
  local list = {}
  edit = edit or {}
  for _, name in ipairs(names) do
    local before = edit.before and edit.before[name]
    if before then
      whole, list = whole:optimize(list), {}
      before(whole)
    end
    list[#list + 1] = name
  end
  whole = whole:optimize(list)
  if edit.behind then edit.behind(whole) end
  return whole
end

--- A plan of a recording behind passes, compared.
---@param r table as `record` gives it
---@param names string[] passes
---@param tolerance number|nil
---@param edit table|nil edits of the graph: {before = {name of a pass = function of the graph that
---  it is going to change}, behind = function behind all passes}
---@return table made {plan, names, passes_ms, emit_ms, first_ms, same, difference}
function M.make(r, names, tolerance, edit)
  local made = { names = names }
  local passes_ms, optimized = timing.once(function()
    return M.optimized(r.graph, names, edit)
  end)
  made.passes_ms = passes_ms
  made.emit_ms, made.plan = timing.once(function() return optimized:plan() end)
  local ok, err = pcall(compare, r, made, passes.are_exact(names), tolerance)
  if not ok then
    made.plan:release()
    error(err, 0)
  end
  return made
end

--- Is what was recorded what the function would compute now: parameters and modes of its modules?
---@param r table
---@param made table
---@return boolean
---@return string|nil why not
function M.is_current(r, made)
  local current, name = made.plan:is_current()
  if not current then return false, name .. ' was replaced' end
  for _, entry in ipairs(r.modules) do
    if entry.module.training ~= entry.training then
      return false, ('a module is in %s mode now'):format(
        entry.module.training and 'training' or 'evaluation')
    end
  end
  return true
end

return M
