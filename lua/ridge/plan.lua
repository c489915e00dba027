-- SPDX-License-Identifier: MIT
--- Plans: a function's calls captured once and replayed from C.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local mode = require 'ridge.tensor.mode'
local ranges = require 'ridge.ranges'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'

local M = {}

local Plan = {}
Plan.__index = Plan

-- Parameters in their places as they are now, of the modules that a capture called or read.
local function places_of(modules)
  local list, seen = {}, {}
  for _, module in ipairs(modules or {}) do mode.places(module, list, seen) end
  return list
end

-- A plan computes with the tensors that were there: where one of its modules has another one now,
-- what it computes is not what the module does.
local function replaced_of(self)
  if self.replaced == mode.replaced then return nil end
  for _, place in ipairs(self.parameters) do
    if not mode.is_current(place) then return place.name end
  end
  self.replaced = mode.replaced
  return nil
end

local function look_again(self)
  local name = replaced_of(self)
  if name then
    blame.raise(('plan: %s was replaced after the capture, and the plan would compute with the '
      .. 'tensor that was there before; capture it again'):format(name), 'ECAPTURE', 'plan')
  end
end

-- Gradients are where the plan leaves and reads them, whatever was done to those of its leaves.
local function attach(self)
  local leaves = self.leaves
  local st = C.rg_leaf_gradients_attach(leaves.list, leaves.n, leaves.seen)
  if st ~= 0 then call.fail(st, 'plan') end
end

-- Does a tensor that is given lie in an input that another one is copied to?
local function is_overwritten(self, key, x, tensors)
  for other in pairs(tensors) do
    if self.inputs[other]._t ~= self.inputs[key]._t and x:same_storage(self.inputs[other]) then
      return true
    end
  end
  return false
end

-- Copy tensors into the inputs of a graph's plan.
local function set_inputs(self, tensors)
  if not self.inputs then
    blame.raise('plan:run: the inputs of a captured plan have no names; write into its tensors '
      .. '(copy_), or make it from a graph: ridge.graph(f, x):plan()', 'EARG', 'plan:run')
  end
  for key, x in pairs(tensors) do
    local input = self.inputs[key]
    if not input then
      local names = {}
      for name in pairs(self.inputs) do names[#names + 1] = tostring(name) end
      local near = blame.near(tostring(key), names)
      blame.raise(('plan:run: there is no input %s%s'):format(blame.show(key),
        near and (" (did you mean '%s'?)"):format(near) or ''), 'EARG', 'plan:run')
    end
    ref.need(x, 'plan:run')
    local same = x.ndim == input.ndim and x.dtype == input.dtype
    for i = 1, same and x.ndim or 0 do same = same and x.shape[i] == input.shape[i] end
    if not same then
      blame.raise(('plan:run: input %s is %s, got %s'):format(tostring(key), blame.show(input),
        blame.show(x)), 'ESHAPE', 'plan:run')
    end
  end
  local from = {} -- two inputs may be given each other's tensors
  for key, x in pairs(tensors) do
    from[key] = is_overwritten(self, key, x, tensors) and x:detach():clone() or x
  end
  local mode_before = C.rg_grad_mode(0)
  for key, x in pairs(from) do
    local status = C.rg_copy_(self.inputs[key]._t, x._t)
    if status ~= 0 then
      C.rg_grad_mode(mode_before)
      call.fail(status, 'plan:run')
    end
  end
  C.rg_grad_mode(mode_before)
end

local function replay(self, n, ...)
  if select('#', ...) > 0 then
    blame.raise(('plan:run: it takes a number of times, or a table of inputs, and nothing behind '
      .. 'it; got %d arguments'):format(1 + select('#', ...)), 'EARG')
  end
  if getmetatable(self) ~= Plan then
    blame.raise('plan:run: it is called with a colon on a plan, got ' .. blame.show(self))
  end
  n = n or 1
  if type(n) == 'table' and self._p ~= nil then
    set_inputs(self, n)
    n = 1
  end
  if type(n) ~= 'number' or not (n >= 0 and n <= 2 ^ 53) or n ~= math.floor(n) then
    blame.raise(('plan: it runs a whole number of times, got %s'):format(blame.show(n)))
  end
  if self._p == nil then blame.raise('plan: it was released', 'EARG', 'plan') end
  if self.replaced ~= mode.replaced then look_again(self) end
  if self.leaves then attach(self) end
  local st = C.rg_plan_replay(self._p, n)
  if st ~= 0 then call.fail(st) end
  return unpack(self.results, 1, self.n_results)
end

--- Replay n times; returns what the captured function returned, with new contents. Each step runs
--- under the modes of the backend that it was captured under, whatever is set now.
---@param n number|table|nil once when left out; a table: once, with these contents in the inputs of
---  a graph's plan, by name or number: { x = tensor }. They are copied into the inputs' tensors.
---@param ... any an error: nothing reads it
---@return any the same tensors at every call; they live until the next replay
function Plan:run(n, ...)
  return replay(self, n, ...)
end

Plan.__call = replay

--- Have the modules that were captured their parameters still? Where one was replaced (assigned, or
--- by module:to), the plan does not run any more.
---@return boolean
---@return string|nil name of one that was replaced
function Plan:is_current()
  local name = replaced_of(self)
  return name == nil, name
end

--- The C pointer, for the measuring window.
---@return cdata rg_plan pointer
function Plan:handle()
  if self.replaced ~= mode.replaced then look_again(self) end
  if self.leaves then attach(self) end
  return self._p
end

-- What a measurement of the plan says besides.
local function notes_of(self)
  local notes = {}
  if self.training then notes[1] = 'TRAINING' end
  if self.reduced then notes[#notes + 1] = 'REDUCED' end
  return notes
end

--- Modes of the core's as ridge.backend.now names them.
---@param m cdata rg_device_modes, or what has its fields
---@param gemm number path of products, RG_GEMM_...
---@return table
function M.modes_of(m, gemm)
  return { vendor = m.vendor ~= 0, autotune = m.autotune ~= 0, autotune_cudnn = m.autotune > 1,
    deterministic = m.deterministic ~= 0, tf32 = m.tf32 ~= 0,
    gemm = ffi.string(C.rg_gemm_name(gemm)) }
end

--- What the plan is made of: n_steps, buffer_bytes, live_bytes (of a graph's plan on the CPU: the
--- most that lives at one time, scratch of kernels and outputs included; no layout is smaller; 0:
--- not laid out), kept_bytes (of weights that passes derived, made once), flops and bytes of one
--- replay, steps (names), device (of all its steps; nil where there are several), modes (its steps
--- run under, as ridge.backend.now names them: vendor, autotune, autotune_cudnn, deterministic,
--- tf32, gemm; nil
--- where they run under several), device_graph (it runs as a CUDA graph, since the first or second
--- replay), why (it cannot be a CUDA graph, where that was tried), notes (TRAINING: a module in
--- training mode was called, and no backward pass is in it; ridge.inference or eval() is for
--- running; REDUCED: passes left out over 1 % of its operations), recorded (of ridge.capture's:
--- n_calls, flops and bytes before passes; left_out: calls that are no steps), kept (of a graph's
--- plan: what it computes only because it was held outside when the graph was recorded, each as
--- {op, module, line, dtype, shape}).
---@return table
function Plan:facts()
  if self._p == nil then blame.raise('plan: it was released', 'EARG', 'plan') end
  local f = ffi.new('rg_plan_facts')
  call.check(C.rg_plan_facts_of(self._p, f))
  local n = tonumber(f.n_steps)
  local names, steps = ffi.new('const char *[?]', n), {}
  call.check(C.rg_plan_step_names(self._p, names, n))
  for i = 1, n do steps[i] = ffi.string(names[i - 1]) end
  return { n_steps = n, buffer_bytes = tonumber(f.buffer_bytes),
           live_bytes = tonumber(f.live_bytes), kept_bytes = tonumber(f.kept_bytes),
           flops = f.flops, bytes = f.bytes, steps = steps,
           device = f.device >= 0 and ffi.string(C.rg_device_name(f.device)) or nil,
           modes = f.mixed == 0 and M.modes_of(f.modes, f.gemm) or nil,
           device_graph = f.device_graph == 1, why = f.why[0] ~= 0 and ffi.string(f.why) or nil,
           notes = notes_of(self), kept = self.kept or {}, recorded = self.recorded }
end

--- Another plan of the same graph, over the same parameters, with inputs, outputs and buffers of
--- its own: two of them can run in two coroutines, or from C on two threads. Its inputs, all that
--- was there before and is no module's, begin with what this plan's hold; p:run { x = t } gives
--- others. Where it draws it has a stream of its own. A captured plan has no clone, nor has one
--- that writes to what is outside.
---@return table plan
-- >> local net = ridge.nn.Linear(3, 2):eval()
-- >> return ridge.graph(net, ridge.ones(1, 3)):plan():clone():run { input = ridge.zeros(1, 3) }
function Plan:clone()
  if self._p == nil then blame.raise('plan: it was released', 'EARG', 'plan:clone') end
  if not self.clone_of then
    blame.raise('plan:clone: a captured plan has no graph; make it from a graph: '
      .. 'ridge.graph(f, x):plan()', 'ENOSUP', 'plan:clone')
  end
  if self.replaced ~= mode.replaced then look_again(self) end
  return self:clone_of()
end

--- Take the core's plan out of an object, which is as released then.
---@param self table plan
---@return cdata rg_plan pointer, finalized
function M.take(self)
  local pointer = self._p
  self._p, self.results = nil, {}
  return pointer
end

--- Release the plan's buffers and graphs now.
function Plan:release()
  if self._p ~= nil then
    C.rg_plan_release(ffi.gc(self._p, nil))
    self._p = nil
    self.results, self.parameters, self.inputs = {}, {}, nil
    self.graph, self.emitted, self.leaves = nil, nil, nil
  end
end

function Plan:__tostring()
  if self._p == nil then return 'plan (released)' end
  local f = self:facts()
  local where = f.device ~= 'cpu' and f.device and (' on %s%s'):format(f.device,
    f.device_graph and ' as one graph' or f.why and ', step by step: ' .. f.why or '') or ''
  return ('plan of %d steps (%s), %.3g MB of buffers, %.3g GFLOP a run%s%s'):format(f.n_steps,
    table.concat(f.steps, ', ', 1, math.min(6, f.n_steps)) .. (f.n_steps > 6 and ', ...' or ''),
    f.buffer_bytes / 2 ^ 20, f.flops / 1e9, where,
    table.concat(notes_of(self)) == '' and '' or ', ' .. table.concat(notes_of(self), ', '))
end

-- The entry's plan while it is set aside.
local CAPTURE = {}

function CAPTURE.on(entry)
  if not entry.plan then
    call.check(C.rg_capture_begin())
  elseif C.rg_capturing() == 1 then
    blame.raise('capture: another one is under way, and that of this coroutine waits for its end',
      'ECAPTURE')
  else
    C.rg_capture_swap(ffi.gc(entry.plan, nil))
    entry.plan = nil
  end
end

function CAPTURE.off(entry)
  local plan = C.rg_capture_swap(nil)
  entry.plan = plan ~= nil and ffi.gc(plan, C.rg_plan_release) or nil
end

function CAPTURE.stop()
  C.rg_capture_cancel()
end

local function finish(entry, seen, settle, ok, ...)
  if not ok then
    state.leave(entry)
    error((...), 0)
  end
  -- what nobody holds need not be stored between two steps that become one
  local settled, why = pcall(settle)
  if not settled then
    state.leave(entry)
    error(why, 0)
  end
  if not state.take(entry) then blame.raise('capture: it was ended meanwhile', 'ECAPTURE') end
  local slot = ffi.new('rg_plan *[1]')
  call.check(C.rg_capture_end(slot))
  return setmetatable({
    _p = ffi.gc(slot[0], C.rg_plan_release), results = { ... }, n_results = select('#', ...),
    training = seen.training, parameters = places_of(seen.modules), replaced = mode.replaced,
  }, Plan)
end

local function captured(settle, f, ...)
  if not blame.callable(f) then blame.raise('capture: a function is expected, got ' .. type(f)) end
  call.settle()
  local seen = {}
  return finish(state.enter(CAPTURE, {}), seen, settle,
    pcall(state.with, ranges.WANTED, {}, mode.watch, seen, f, ...))
end

--- Run a function once and capture every call of it as a step of a plan; no pass runs.
---@param f function
---@param ... any its arguments
---@return table plan; plan() replays it and returns what f returned
function M.steps(f, ...)
  return captured(ref.settle, f, ...)
end

--- The same for a function that has collected what nobody holds itself (ridge.graph_record).
---@param f function
---@param ... any its arguments
---@return table plan
function M.settled_steps(f, ...)
  return captured(function() end, f, ...)
end

--- A plan of the core's as an object.
---@param pointer cdata rg_plan pointer, finalized
---@param fields table results, n_results, parameters, replaced, training, inputs, graph, emitted,
---  kept, leaves (of ridge.capture)
---@return table plan
function M.own(pointer, fields)
  if not ffi.istype('rg_plan *', pointer) or type(fields) ~= 'table' then
    blame.raise('plan.own: a pointer of the core is expected, got ' .. blame.show(pointer))
  end
  fields._p = pointer
  return setmetatable(fields, Plan)
end

-- -- Plans of several shapes ------------------------------------------------------------------

local Shelf = {}
Shelf.__index = Shelf

--- A place for plans by key, of inputs' shapes for instance (F127). It holds so many; when another
--- one comes, the one that was used longest ago goes.
---@param most number at least 1
---@return table shelf get, put, each
function M.shelf(most)
  return setmetatable({ most = most, order = {} }, Shelf)
end

--- What was put under a key, which counts as used now; nil where nothing is.
---@param key string
---@return any
function Shelf:get(key)
  local order = self.order
  for i = #order, 1, -1 do
    if order[i].key == key then
      local entry = table.remove(order, i)
      order[#order + 1] = entry
      return entry.made
    end
  end
  return nil
end

--- Put something under a key that is free.
---@param key string
---@param made any
---@return any gone what had to go for it, whose memory the caller gives back; nil where nothing had
function Shelf:put(key, made)
  local order = self.order
  local gone = #order == self.most and table.remove(order, 1).made or nil
  order[#order + 1] = { key = key, made = made }
  return gone
end

--- All that is there, the longest unused first: for made in shelf:each() do ... end.
---@return function iterator
function Shelf:each()
  local i = 0
  return function()
    i = i + 1
    return self.order[i] and self.order[i].made
  end
end

-- -- What is a plan ---------------------------------------------------------------------------

--- Is this value a plan?
---@param value any
---@return boolean
function M.is(value)
  return getmetatable(value) == Plan
end

require('ridge.types').register('Plan', M.is, {
  methods = { run = 'run(n): replay n times; run{x = t}: with contents for inputs',
              facts = 'facts(): what it is made of',
              clone = "clone(): the same of a graph's plan, with inputs and buffers of its own",
              release = 'release(): free its buffers',
              is_current = 'is_current(): have its modules their parameters still?',
              handle = 'handle(): the C pointer' },
})

guard.all(Plan)

return M
