-- SPDX-License-Identifier: MIT
--- net:analyze(x): what each layer of a net holds, computes, keeps for the backward pass, takes.

local C = require 'ridge.ffi.lib'
local backend = require 'ridge.backend'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local layers_of = require 'ridge.analyze.layers'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local roofs = require 'ridge.measure.roof'
local step = require 'ridge.analyze.step'
local times_of = require 'ridge.analyze.times'
local watch = require 'ridge.analyze.watch'

local M = {}

local SPEC = {
  more = { 'table', doc = 'further arguments of the call, behind x' },
  backward = { 'boolean', doc = 'the backward pass too; where the net is in training mode when '
    .. 'left out' },
  loss = { 'function', doc = 'of what the net returns, a tensor of one element; the sum of it all '
    .. 'when left out' },
  rounds = { 'integer', min = 0, max = 10000, doc = 'times that a step is timed, with and without '
    .. 'looking on in turn; as many as take about half a second when left out, 4 to 30; 0: it is '
    .. 'only counted' },
  roof = { 'boolean|table', default = true, doc = 'hold times against ceilings: those of this '
    .. 'machine in the database, or rows of ridge.measure.calibrate; false: none' },
}

local Analysis = { __name = 'Analysis' }
Analysis.__index = Analysis

-- -- Roofs ------------------------------------------------------------------------------------

local function check_rows(rows)
  for _, row in ipairs(options.list(rows, 'analyze: roof')) do
    if type(row) ~= 'table' or type(row.name) ~= 'string' or type(row.value) ~= 'number' then
      blame.raise(('analyze: option roof is true, false or rows of ridge.measure.calibrate, each '
        .. 'with a name and a value; one is %s'):format(blame.show(row)), 'EARG', 'analyze')
    end
  end
end

-- The least time of an event by the ceilings, as a function; nil where none are known, and why they
-- could not be read.
local function roof_of(opt, device)
  local rows = opt.roof
  if rows == true then
    local stored = require('ridge.sweep.calibrated').stored
    local ok, found = pcall(stored, nil, device ~= 'cpu' and device or nil)
    if not ok then return nil, blame.is_error(found) and found.message or tostring(found) end
    rows = found
  end
  if not rows then return nil end
  check_rows(rows)
  local ceilings, machine = roofs.by_name(rows), backend.machine()
  machine.threads = backend.threads()
  return function(event)
    local cost = { flops = event.flops, bytes = event.bytes,
      dtype = event.shapes and event.shapes:match '^%a%w*' }
    local ns, name = roofs.least(cost, ceilings, machine)
    if ns then return ns, name end
    return roofs.memory_ns(cost, ceilings, machine)
  end
end

-- -- Counting ---------------------------------------------------------------------------------

-- Memory of the tensors among a call's arguments.
local function bytes_of(...)
  local bytes, seen = 0, {}
  step.each_tensor({ ... }, function(x)
    local memory = layers_of.memory_of(x)
    if not seen[memory] then
      seen[memory] = true
      bytes = bytes + x.bytes
    end
  end)
  return bytes
end

--- Count one step: a pass that is not timed.
---@param job table ridge.analyze.step
---@param layers table
---@param roof function|nil
---@return table found ridge.analyze.watch, with saved and saved_typed: bytes by row
function M.count(job, layers, roof)
  local saved, typed
  local function look(loss) saved, typed = watch.saved(loss, layers, job.dtype) end
  local function heard(path, module, ...) layers:hear(path, module, bytes_of(...)) end
  local watched = watch.run(function() return step.run(job, look) end, heard)
  local found = watch.read(watched, layers, roof)
  found.saved, found.saved_typed = saved or {}, typed or {}
  layers:settle()
  return found
end

-- -- The analysis -----------------------------------------------------------------------------

local NOTHING = { flops = 0, products = 0, bytes = 0, least_ns = 0, roofs = {} }

local function largest_of(list)
  local best
  for name, ns in pairs(list) do
    if not best or ns > list[best] or ns == list[best] and name < best then best = name end
  end
  return best
end

-- What is held of the roof by a time; the roof is that of most of it.
local function held_against(b, ms, layer, prefix)
  if b.no_roof or b.least_ns == 0 then return end
  layer[prefix .. 'roof'], layer[prefix .. 'roof_ms'] = largest_of(b.roofs), b.least_ns / 1e6
  if ms and ms > 0 then layer[prefix .. 'roof_share'] = b.least_ns / 1e6 / ms end
end

local function add_times(layer, took, forward, backward)
  layer.ms, layer.backward_ms = took[1], took[2]
  if layer.ms > 0 then layer.gflops = forward.flops / layer.ms / 1e6 end
  if layer.backward_ms > 0 and backward.flops > 0 then
    layer.backward_gflops = backward.flops / layer.backward_ms / 1e6
  end
end

-- A layer as it is told.
local function layer_of(row, found, times)
  local of = found.rows[row]
  local forward, backward = of and of.forward or NOTHING, of and of.backward or NOTHING
  local layer = { name = row.name, class = row.class, part = row.part,
    calls = found.calls[row] or 0, params = row.params, trainable = row.trainable,
    buffers = row.buffers, bytes = row.bytes, mb = row.bytes / 2 ^ 20,
    tied = #row.tied > 0 and row.tied or nil, out = row.out,
    flops = forward.products, other_flops = forward.flops - forward.products,
    traffic_bytes = forward.bytes, backward_flops = backward.products,
    backward_other_flops = backward.flops - backward.products,
    backward_traffic_bytes = backward.bytes, saved_bytes = found.saved[row] or 0 }
  if times then add_times(layer, times.rows[row] or { 0, 0 }, forward, backward) end
  held_against(forward, layer.ms, layer, '')
  held_against(backward, layer.backward_ms, layer, 'backward_')
  return layer
end

local SUMS = { 'params', 'trainable', 'buffers', 'flops', 'other_flops', 'backward_flops',
  'backward_other_flops', 'saved_bytes' }

local function add_up(a, found)
  for _, field in ipairs(SUMS) do
    a[field] = 0
    for _, layer in ipairs(a.layers) do
      if layer.part or field:find 'flops' or field == 'saved_bytes' then
        a[field] = a[field] + layer[field]
      end
    end
  end
  local of = found.rows[found.outside]
  a.outside = { other_flops = of.loss.flops, backward_other_flops = of.backward.flops,
    saved_bytes = found.saved[false] or 0 }
  -- what the net's own forward computes belongs to a layer; here is what has no module
  a.flops = a.flops + of.forward.products
  a.other_flops = a.other_flops + of.forward.flops - of.forward.products
  a.multiply_adds = a.flops / 2
end

local function add_step(a, times)
  a.rounds, a.ms, a.step_ms = times.rounds, times.forward, times.total
  a.loss_ms, a.backward_ms = times.loss, times.backward
  a.outside.ms, a.outside.backward_ms = unpack(times.rows.outside)
  a.layers_ms, a.layers_forward_ms = 0, 0
  for _, layer in ipairs(a.layers) do
    a.layers_forward_ms = a.layers_forward_ms + layer.ms
    a.layers_ms = a.layers_ms + layer.ms + layer.backward_ms
  end
  a.watched_ms = a.layers_ms + a.outside.ms + a.outside.backward_ms
  for _, layer in ipairs(a.layers) do
    layer.share = a.watched_ms > 0 and (layer.ms + layer.backward_ms) / a.watched_ms or 0
  end
end

local function notes_of(a, job, wrote, why, masked)
  local notes = {}
  if why then notes[1] = 'no roofs: ' .. why end
  if wrote then
    notes[#notes + 1] = ('forward writes to the parameter %s, which is trained: analysing has '
      .. 'changed it as a step does'):format(wrote)
  end
  for _, layer in ipairs(a.layers) do
    if not layer.part then
      notes[#notes + 1] = ('%s (%s) is called and no part of the net: its parameters are not '
        .. "counted; self:child('name', module) makes it one"):format(layer.name, layer.class)
    end
    for _, tie in ipairs(layer.tied or {}) do
      notes[#notes + 1] = ('%s of %s is %s: counted there'):format(tie.name, layer.name, tie.to)
    end
  end
  if masked then
    notes[#notes + 1] = 'attention with a mask of blocks is counted as without it: what is left '
      .. 'out depends on the mask, not on sizes'
  end
  if not job.backward and job.net.training then
    notes[#notes + 1] = 'forward alone, in training mode: it computes as while training'
  end
  return notes
end

local function check_inputs(args)
  step.each_tensor({ unpack(args, 1, args.n) }, function(x) ref.need(x, 'analyze') end)
end

-- The first tensor among the inputs.
local function first_of(args)
  local first
  step.each_tensor({ unpack(args, 1, args.n) }, function(x) first = first or x end)
  return first
end

--- What runs for an analysis.
---@param net table module
---@param args table n, arguments of the call
---@param opt table checked options
---@return table job
function M.job(net, args, opt)
  local first, held = first_of(args), net:parameters()[1]
  local backward = opt.backward
  if backward == nil then
    backward = net.training and #step.leaves { net = net, args = args } > 0
  end
  return { net = net, args = args, loss = opt.loss, backward = backward,
    device = first and first.device or held and held.tensor.device or 'cpu',
    batch = first and first.ndim > 0 and first:size(1) or nil,
    dtype = held and held.tensor.dtype or first and first.dtype or 'f32' }
end

--- Count steps of a net and time them.
---@param job table
---@param opt table rounds, roof
---@return table made layers, found (of M.count), times (of ridge.analyze.times), why (no roofs)
function M.run(job, opt)
  return step.going_back(job, function()
    local layers = layers_of.of(job.net)
    local roof, why = roof_of(opt, job.device)
    local found = M.count(job, layers, roof)
    return { layers = layers, found = found, why = why, times = times_of.of(job, layers, opt) }
  end)
end

--- Analyse a net: net:analyze says what it gives.
---@param net table module
---@param x any its first argument
---@param opts table|nil more, backward, loss, rounds, roof
---@return table analysis
function M.analyze(net, x, opts)
  opts = options.check(SPEC, opts, 'analyze')
  local args = { n = 1 + #(opts.more or {}), x, unpack(opts.more or {}) }
  check_inputs(args)
  if C.rg_capturing() == 1 then
    blame.raise('analyze: a capture is under way, and the steps would be part of it; analyse the '
      .. 'net before', 'ECAPTURE', 'analyze')
  end
  local job = M.job(net, args, opts)
  local made, wrote = step.unchanged(net, args, M.run, job, opts)
  local a = setmetatable({ class = getmetatable(net).__name, batch = job.batch, dtype = job.dtype,
    device = job.device, backward = job.backward, layers = {} }, Analysis)
  for i, row in ipairs(made.layers.list) do
    a.layers[i] = layer_of(row, made.found, made.times)
  end
  a.bytes = net:num_bytes()
  add_up(a, made.found)
  if made.times then add_step(a, made.times) end
  a.notes = notes_of(a, job, wrote, made.why, made.found.masked)
  a._job, a._opts, a._made = job, opts, made
  return a
end

-- -- What it is asked -------------------------------------------------------------------------

local BOTTLENECKS = {
  top = { 'integer', min = 1, max = 2 ^ 31, doc = 'at most so many' },
  over = { 'number', min = 0, max = 1, doc = 'only those with a larger share of the time' },
}

local Bottlenecks = {}
function Bottlenecks.__tostring(list) return require('ridge.analyze.text').bottlenecks(list) end
Bottlenecks.__tostring = guard.text(Bottlenecks.__tostring)

--- The layers that most of the time goes to, the longest first: the three longest, or those over a
--- share of the step. `over` says of each whether it is over that, 20 % when left out.
---@param opts table|nil {top = 3, over = 0.2}: with over alone all that are over it
---@return table[] list of {name, class, ms (forward and back), share, over, roof, roof_share};
---  prints as lines
-- >> ridge.nn.Linear(8, 8):analyze(ridge.randn(4, 8)):find_bottlenecks()[1].name
function Analysis:find_bottlenecks(opts)
  opts = options.check(BOTTLENECKS, opts, 'find_bottlenecks')
  if not self.step_ms then
    blame.raise('find_bottlenecks: nothing was timed (rounds = 0)', 'EARG', 'analyze')
  end
  local list, limit = {}, opts.over or 0.2
  for _, layer in ipairs(self.layers) do
    local ms = layer.ms + layer.backward_ms
    if ms > 0 and (not opts.over or layer.share > opts.over) then
      local least = layer.roof_ms and layer.roof_ms + (layer.backward_roof_ms or 0)
      list[#list + 1] = { name = layer.name, class = layer.class, ms = ms, share = layer.share,
        over = layer.share > limit, roof = layer.roof, roof_share = least and least / ms }
    end
  end
  table.sort(list, function(a, b)
    if a.ms ~= b.ms then return a.ms > b.ms end
    return a.name < b.name
  end)
  local most = opts.top or not opts.over and 3 or #list
  for i = #list, most + 1, -1 do list[i] = nil end
  list.limit, list.longest = limit, list[1]
  return setmetatable(list, Bottlenecks)
end

--- The same net at other batch sizes, in other types, with its blocks recomputed in the backward
--- pass, a line for each combination. A line is 'computed' from this analysis (and one more pass at
--- another batch size, for what grows with it), or 'measured': then it was really run.
---@param opts table {batch = {1, 64}, dtype = {'bf16'}, recompute = true, measure = false,
---  rounds =, batch_axis = 1}
---@return table[] lines of {batch, dtype, recompute, how, bytes, flops, other_flops,
---  backward_flops, saved_bytes, ms, step_ms}; prints as a table. Times are in measured lines only
-- >> ridge.nn.Linear(8, 8):analyze(ridge.randn(4, 8)):what_if { batch = { 1, 64 } }
function Analysis:what_if(opts)
  return require('ridge.analyze.what_if').lines(self, opts)
end

--- The analysis as text.
---@param opts table|nil {rows = 40: layers at most, depth = 2: those below so many names of a path
---  are summed up}
---@return string
function Analysis:text(opts)
  return require('ridge.analyze.text').text(self, opts)
end

function Analysis:__tostring() return require('ridge.analyze.text').text(self) end
Analysis.__tostring = guard.text(Analysis.__tostring)

--- Is this value an analysis?
---@param value any
---@return boolean
function M.is(value) return getmetatable(value) == Analysis end

require('ridge.types').register('Analysis', M.is, {
  methods = { find_bottlenecks = 'find_bottlenecks{top =, over =}: where most of the time goes',
    what_if = "what_if{batch = {1, 64}, dtype = {'bf16'}, recompute = true}: otherwise",
    text = 'text{rows =, depth =}: as text' },
  properties = { params = 'parameters, tied ones once', bytes = 'of what is stored',
    flops = 'of one forward pass, 2 for each multiply-add of a product',
    layers = 'list of layers', saved_bytes = 'kept for the backward pass',
    step_ms = 'of a step that nobody looked on at' },
})

guard.all(Analysis)

return M
