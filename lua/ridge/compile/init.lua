-- SPDX-License-Identifier: MIT
--- ridge.compile(f): a function that replays what f computes, recorded once for each size of its
--- arguments, behind passes, and compared with f itself before it is used.

local blame = require 'ridge.blame'
local arguments = require 'ridge.compile.arguments'
local autotune = require 'ridge.compile.autotune'
local C = require 'ridge.ffi.lib'
local device = require 'ridge.device'
local entry = require 'ridge.compile.entry'
local grad = require 'ridge.tensor.grad'
local gradients = require 'ridge.compile.gradients'
local guard = require 'ridge.guard'
local nn = require 'ridge.nn'
local options = require 'ridge.options'
local outside = require 'ridge.compile.outside'
local passes = require 'ridge.graph_passes'
local plan = require 'ridge.plan'
local report = require 'ridge.compile.report'
local timing = require 'ridge.compile.timing'
local trial = require 'ridge.graph_trial'

local M = {}

local MODES = { 'reduce-overhead', 'max-autotune', 'default' } -- in the order they are fallen back

local SPEC = {
  mode = { 'string', default = 'default',
    choices = { 'default', 'reduce-overhead', 'max-autotune', 'auto' },
    doc = 'default: results are new tensors; reduce-overhead: the same ones each time, one CUDA '
      .. 'graph; max-autotune: paths and passes are timed; auto: what is the fastest of all' },
  fallback = { 'boolean', default = true,
    doc = 'where a mode fails the next one is taken, and the function itself in the end' },
  passes = { 'string|list', names = { 'standard', 'aggressive' },
    doc = "passes or a level; 'aggressive', for what writes (a training step) 'standard'" },
  plans = { 'integer', default = 8, min = 1, max = 1000,
    doc = 'sizes of which plans are kept; the one that was used longest ago goes' },
  tolerance = { 'number', min = 0,
    doc = 'how far a plan may be off, over the largest number of a result' },
  say = { 'function', doc = 'called with each line it says; they go to stderr when left out' },
}

local MOST_CHANGES = 8 -- of what a function reads from outside: a plan for each is no gain

local Compiled = { __name = 'compiled' }
Compiled.__index = Compiled

local function packed(...) return { n = select('#', ...), ... } end

local function text_of(err)
  local text = blame.is_error(err) and err.message or tostring(err)
  return (text:gsub('\n.*', ''):gsub('^compile: ', ''))
end

-- -- Running a plan ---------------------------------------------------------------------------

local function fresh(x) return x:detach():clone() end
local function same_place(x) return x:detach() end

-- A plan's results: new tensors, or those of the plan.
local function deliver(size, ...)
  local keep = size.mode == 'reduce-overhead' and same_place or fresh
  local n = select('#', ...)
  if n == 1 then return trial.map((...), keep) end
  local list = packed(...)
  for i = 1, n do list[i] = trial.map(list[i], keep) end
  return unpack(list, 1, n)
end

-- A function that runs a plan once and waits for its device.
local function runner(p)
  local where = p:facts().device
  if where and where ~= 'cpu' then
    return function()
      p:run()
      device.wait(where)
    end
  end
  return function() p:run() end
end

-- -- Compiling one size -------------------------------------------------------------------------

local function names_of(self, r)
  return passes.named(self.passes or (r.stateful and 'standard' or 'aggressive'), 'compile')
end

local function make(self, r, mode)
  local names = names_of(self, r)
  if mode == 'max-autotune' then
    return autotune.make(r, names, { tolerance = self.tolerance, runner = runner })
  end
  return entry.make(r, names, self.tolerance)
end

-- As the user calls it in a mode.
local function whole_call(size, r, made, mode)
  local run = runner(made.plan)
  return function()
    arguments.fill(r.copies, size.args)
    run()
    deliver({ mode = mode }, unpack(made.plan.results, 1, made.plan.n_results))
  end
end

-- The function itself, where calling it once more changes nothing.
local function eager_call(self, size, r)
  if r.stateful or r.draws then return nil end
  return function() self.f(unpack(size.args, 1, size.args.n)) end
end

-- What modes take, and the function; nil for those that cannot be known.
local function time(self, size, r, list)
  local calls = {}
  for i, made in ipairs(list) do calls[i] = whole_call(size, r, made, made.mode) end
  local eager = eager_call(self, size, r)
  calls[#calls + 1] = eager
  local ms = timing.medians(calls)
  trial.restore(r.saved)
  for i, made in ipairs(list) do made.steady_ms = ms[i] end
  if eager then size.eager_ms = ms[#list + 1] end
end

local function next_modes(mode)
  local list = { mode }
  for _, other in ipairs(MODES) do
    local later = mode == 'reduce-overhead' or other == 'default'
    if other ~= mode and later then list[#list + 1] = other end
  end
  return list
end

-- The one of the modes that was measured fastest.
local function choose(self, size, r)
  local list, why = {}, nil
  for _, mode in ipairs(MODES) do
    local ok, made = pcall(make, self, r, mode)
    if ok then
      made.mode = mode
      list[#list + 1] = made
    else
      blame.pass_interrupt(made)
      why = text_of(made)
      self.say(('compile: %s: mode %s is left out: %s'):format(size.text, mode, why))
    end
  end
  if #list == 0 then
    why = 'no mode works: ' .. why
    if not self.fallback then blame.raise('compile: ' .. why, 'ECAPTURE', 'compile') end
    return nil, why
  end
  time(self, size, r, list)
  local best = list[1]
  for _, made in ipairs(list) do
    if made.steady_ms < best.steady_ms then best = made end
  end
  for _, made in ipairs(list) do
    if made ~= best then made.plan:release() end
  end
  if size.eager_ms and size.eager_ms < best.steady_ms then
    best.plan:release()
    return nil, ('the function itself is the fastest: %.3g ms, the best plan %.3g'):format(
      size.eager_ms, best.steady_ms)
  end
  return best
end

local function use(size, r, made)
  size.made, size.mode, size.recording = made, made.mode, r
end

-- Take the first mode that works.
local function try_modes(self, size, r)
  local modes = next_modes(self.mode)
  for i, mode in ipairs(modes) do
    local ok, made = pcall(make, self, r, mode)
    if ok then
      made.mode = mode
      time(self, size, r, { made })
      return made
    end
    blame.pass_interrupt(made)
    if not self.fallback then
      blame.raise(('compile: %s: mode %s: %s'):format(size.text, mode, text_of(made)),
        blame.is_error(made) and made.code or 'ECAPTURE', 'compile')
    end
    size.why = text_of(made)
    self.say(('compile: %s: mode %s: %s; now %s'):format(size.text, mode, size.why,
      modes[i + 1] and 'mode ' .. modes[i + 1] or 'the function as it is'))
  end
end

-- No plan: the function itself from here on.
local function give_up(self, size, why)
  size.mode, size.why = 'eager', why
  self.say(('compile: %s: %s; now the function as it is'):format(size.text, why))
end

local function refuse(self, size, why)
  if not self.fallback then blame.raise('compile: ' .. why, 'ECAPTURE', 'compile') end
  give_up(self, size, why)
end

local function tell(self, size)
  self.say(('compile: %s: a new plan in mode %s, %.3g ms (record %.3g, passes %.3g, emit %.3g)'):
    format(size.text, size.mode, size.cost_ms, size.recording.ms, size.made.passes_ms,
      size.made.emit_ms))
end

local function recorded(self, size)
  if arguments.want_gradients(size.args) then
    return nil, 'an argument requires a gradient, which no plan hands back; compile the whole step'
  end
  local f = self.f
  if nn.is_module(f) then f = function(...) return grad.no_grad(self.f, ...) end end
  local found = outside.of(self.f)
  local r, err, seen = entry.record(f, size.args)
  if not r then return nil, err, seen end
  r.outside = outside.steady(found)
  return r, r.refused
end

-- It could not be recorded: what the call returns then.
local function unrecorded(self, size, err, seen)
  blame.pass_interrupt(err)
  local code = blame.is_error(err) and err.code
  if seen and not seen.ended and not seen.misread and code ~= 'ECAPTURE' and code ~= 'ENOSUP' then
    error(err, 0) -- the function's own
  end
  local why = text_of(err)
  refuse(self, size, why)
  if not seen then return self.f(unpack(size.args, 1, size.args.n)) end
  if seen.results then return unpack(seen.results, 1, seen.results.n) end
  if (seen.wrote or 0) > 0 then
    blame.raise(('compile: %s; it had written to what was there before by then, and is not called '
      .. 'once more for you; the next call runs it as it is'):format(why), 'ECAPTURE', 'compile')
  end
  return self.f(unpack(size.args, 1, size.args.n))
end

local function left_behind(line)
  return ('it leaves a tensor behind that it does not return%s, and a plan does not'):format(
    line ~= '' and ' (made at ' .. line .. ')' or '')
end

-- The first call of a size: it is the recording.
local function first_call(self, size, ...)
  size.args = packed(...)
  local ms, r, why, seen = timing.once(function() return recorded(self, size) end)
  if not r then return unrecorded(self, size, why, seen) end
  if r.kept and not why and not size.kept then
    size.kept = true -- what is made once, at a first call, is there at the next one
    return unpack(r.results, 1, r.results.n)
  end
  why = why or r.kept and left_behind(r.kept)
  if why then
    refuse(self, size, why)
    return unpack(r.results, 1, r.results.n)
  end
  if r.training then
    self.say(('compile: %s: a module is in training mode and no backward pass is in the function; '
      .. 'results carry no gradients'):format(size.text))
  end
  local results = { n = r.results.n }
  for i = 1, results.n do results[i] = trial.map(r.results[i], fresh) end
  local rest, made, none = timing.once(function()
    if self.mode == 'auto' then return choose(self, size, r) end
    return try_modes(self, size, r)
  end)
  size.cost_ms = ms + rest
  if made then
    use(size, r, made)
    size.unproved = r.stateful or nil
    size.gradients = gradients.of(r)
    tell(self, size)
  elseif none then
    give_up(self, size, none)
  else
    size.mode = 'eager'
  end
  size.args = nil
  return unpack(results, 1, results.n)
end

-- -- Calls ----------------------------------------------------------------------------------

-- What the function does depends on which parameters have gradients: from here on plans are for
-- that too.  Those that there are were recorded when nobody looked.
local function by_gradients(self, list)
  for size in self.shelf:each() do
    if size.made and size.mode ~= 'eager' then size.made.plan:release() end
  end
  self.shelf, self.parameters = plan.shelf(self.plans), list
  self.say 'compile: parameters with gradients and without are compiled for each, from here on'
end

-- The second call of what writes: the function itself runs, and its plan is compared with it.
local function prove(self, size, ...)
  local r, args, list = size.recording, packed(...), size.gradients
  size.unproved = nil
  local replaces, hides = gradients.replace(list), gradients.hide(list)
  gradients.learn(list)
  local before = gradients.attach(list, true)
  local saved = trial.save(r.graph, r.streams)
  arguments.fill(r.copies, args)
  local got = trial.outcome(saved, packed(size.made.plan:run()))
  trial.restore(saved)
  gradients.put_back(list, before)
  local results
  size.eager_ms, results = timing.once(function()
    return packed(self.f(unpack(args, 1, args.n)))
  end)
  local same, difference = trial.difference(trial.outcome(saved, results), got)
  size.proved = same and 0 or difference
  if not same and not (difference <= entry.limit(got, passes.are_exact(size.made.names),
    self.tolerance)) then
    if replaces and not self.parameters then
      by_gradients(self, list)
      return results
    end
    size.made.plan:release()
    size.made, size.mode = nil, nil
    refuse(self, size, ('its plan computes something else than the function: off by %.2g of the '
      .. 'largest number'):format(difference))
  elseif hides and not self.parameters then
    by_gradients(self, list)
  end
  return results
end

local function stale(self, size)
  local current, why = entry.is_current(size.recording, size.made)
  local other = current and outside.changed(size.recording.outside)
  if current and not other then return false end
  why = why or other
  self.changes = self.changes + (other and 1 or 0)
  if other and self.changes > MOST_CHANGES then
    size.made.plan:release()
    size.made, size.recording = nil, nil
    refuse(self, size, ('%s: what it reads from outside has changed %d times; hand it to f'):format(
      why, self.changes))
    return false
  end
  self.say(('compile: %s: %s; it is compiled again'):format(size.text, why))
  size.made.plan:release()
  return true
end

local function call(self, ...)
  if getmetatable(self) ~= Compiled then
    blame.raise('compile: it is called as a function, f(x)', 'EARG', 'compile')
  end
  if C.rg_capturing() == 1 then return self.f(...) end -- a part of what is captured
  local key = arguments.key(...)
  if self.parameters then key = key .. ' ' .. gradients.kind(self.parameters) end
  local size = self.shelf:get(key)
  if not size then
    size = { text = arguments.size(key), calls = 0 }
    local gone = self.shelf:put(key, size)
    if gone and gone.made then gone.made.plan:release() end
  elseif size.made and size.mode ~= 'eager' and stale(self, size) then
    size.made, size.recording, size.unproved, size.calls = nil, nil, nil, 0
    size.kept = nil
  end
  size.calls = size.calls + 1
  if not size.mode or (size.mode ~= 'eager' and not size.made) then
    return first_call(self, size, ...)
  end
  if size.mode == 'eager' then return self.f(...) end
  if not gradients.fit(size.gradients) then
    if self.parameters then return self.f(...) end -- of a module that came later
    by_gradients(self, size.gradients)
    return call(self, ...)
  end
  if size.unproved then
    local results = prove(self, size, ...)
    return unpack(results, 1, results.n)
  end
  arguments.fill(size.recording.copies, packed(...))
  gradients.attach(size.gradients)
  return deliver(size, size.made.plan:run())
end

Compiled.__call = call

--- What compiling took, a row a size: { size =, mode =, why = (the function itself runs, or another
--- mode), record_ms =, passes_ms =, emit_ms =, cost_ms = (all of the first call, with comparing and
--- timing), first_ms =, steady_ms =, eager_ms = (the function itself; of what writes, one call),
--- same = (the plan gave the same bits), difference =, calls =, pays_after = (calls, nil where the
--- plan is no faster), paid = }.
---@return table rows tostring is a table
-- >> local f = ridge.compile(function(x) return x:exp() + 1 end, { say = function() end })
-- >> f(ridge.ones(3)); return f:report()
function Compiled:report()
  if getmetatable(self) ~= Compiled then
    blame.raise('compile: report is called with a colon, f:report()', 'EARG', 'compile')
  end
  return report.of(self)
end

function Compiled:__tostring()
  local n = 0
  for _ in self.shelf:each() do n = n + 1 end
  return ('compiled function, mode %s, %d size%s so far'):format(self.mode, n, n == 1 and '' or 's')
end
Compiled.__tostring = guard.text(Compiled.__tostring)

--- A function that computes what f does by replaying a plan. The first call of each size (types and
--- shapes of tensors, and all other arguments) is recorded while f runs; passes run over the graph,
--- a plan of it is compared with what f gave, and later calls replay that. Where it cannot be
--- recorded or gives something else, the next mode is taken with one line that says why, and in the
--- end f itself. Up to `plans` sizes are kept.
--
-- Results carry no gradients: compile a whole training step, with its backward pass and optimizer.
-- Tensors that are no arguments are read where they lie. What decides what f computes is looked at
-- before a plan runs: a parameter that was replaced, a module in another mode, an upvalue or global
-- of f, or a field of a table among them that f names, that is another tensor, number, text,
-- function or table now, compiles anew; after 8 such changes f itself runs. Fields of modules and
-- objects stay what they were, and so does what f itself changes, as a counter.
---@param f function or a module
---@param opts table|nil mode ('default', 'reduce-overhead', 'max-autotune', 'auto'), fallback,
---  passes ('standard', 'aggressive' or names), plans, tolerance, say
---@return table compiled f(x) as before, f:report()
-- >> local f = ridge.compile(ridge.nn.Linear(3, 2):eval(), { say = function() end })
-- >> return f(ridge.ones(1, 3))
function M.compile(f, opts)
  if not blame.callable(f) then
    blame.raise('compile: a function is expected, got ' .. blame.show(f), 'EARG', 'compile')
  end
  opts = options.check(SPEC, opts or {}, 'compile')
  if opts.passes then passes.named(opts.passes, 'compile') end
  return setmetatable({ f = f, mode = opts.mode, fallback = opts.fallback, passes = opts.passes,
    tolerance = opts.tolerance, plans = opts.plans, changes = 0, shelf = plan.shelf(opts.plans),
    say = opts.say or function(line) io.stderr:write(line, '\n') end }, Compiled)
end

require('ridge.types').register('Compiled',
  function(value) return getmetatable(value) == Compiled end,
  { methods = { report = 'report(): what compiling took, and when it has paid' } })

guard.all(Compiled)
guard.all(M)

return M
