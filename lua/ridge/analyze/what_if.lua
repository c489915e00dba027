-- SPDX-License-Identifier: MIT
--- The same net otherwise: at other batch sizes, in other types, with blocks that keep their input
--- alone. Lines are computed from an analysis, or measured.
--
-- What grows with the batch is a constant and a part for each row: two passes, at the batch of the
-- analysis and at another one, give both exactly. A type changes the bytes of what is kept in the
-- net's own type. Recomputation leaves of each block its input, and computes its forward pass once
-- more. Times are never computed.

local blame = require 'ridge.blame'
local blocks = require 'ridge.nn.blocks'
local class = require 'ridge.class'
local columns = require 'ridge.show.columns'
local dtypes = require 'ridge.tensor.dtype'
local grad = require 'ridge.tensor.grad'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local step = require 'ridge.analyze.step'
local unit = require 'ridge.show.unit'

local M = {}

local SPEC = {
  batch = { 'list|integer', doc = 'batch sizes; that of the analysis when left out' },
  dtype = { 'list|string', doc = "types, as 'bf16'; that of the analysis when left out" },
  recompute = { 'boolean', default = false, doc = 'each line with recomputation too' },
  measure = { 'boolean', default = false, doc = 'run each line too, and time it' },
  rounds = { 'integer', min = 1, max = 10000, doc = 'of each time, as for analyze' },
  batch_axis = { 'integer', default = 1, min = 1, max = 8, doc = 'of the inputs' },
}

-- -- Inputs of another size or type ---------------------------------------------------------------

local function resized(x, axis, n)
  local has = x:size(axis)
  local parts = {}
  for i = 1, math.ceil(n / has) do parts[i] = x end
  local ridge = require 'ridge'
  local long = #parts > 1 and ridge.concat(parts, axis) or x
  return long:narrow(axis, 1, n):clone() -- with memory of its own
end

-- A value with each of its tensors replaced; tables are copied.
local function mapped(value, f, seen)
  if ref.is(value) then return f(value) end
  if type(value) ~= 'table' or getmetatable(value) then return value end
  if not seen[value] then
    local out = {}
    seen[value] = out
    for key, inner in pairs(value) do out[key] = mapped(inner, f, seen) end
  end
  return seen[value]
end

-- The batch of an analysis along an axis: that of the first input that has it.
local function batch_along(a, axis)
  local n
  step.each_tensor({ unpack(a._job.args, 1, a._job.args.n) }, function(x)
    n = n or x.ndim >= axis and x:size(axis) or nil
  end)
  return n
end

-- Arguments with so many rows, in a type: tensors of the analysis' batch and type are meant.
local function args_of(a, batch, dtype, axis)
  local job, seen, own = a._job, {}, batch_along(a, axis)
  local args = { n = job.args.n }
  local function change(x)
    local out = x
    if batch ~= own and x.ndim >= axis and x:size(axis) == own then
      out = resized(x:detach(), axis, batch)
    end
    if dtype ~= a.dtype and dtypes.kind[x.dtype] == 'float' then out = out:detach():to(dtype) end
    if out ~= x and x.requires_grad then out:requires_grad_() end
    return out
  end
  for i = 1, args.n do
    args[i] = grad.no_grad(mapped, job.args[i], change, seen)
  end
  return args
end

local function job_of(a, args, net)
  local job = {}
  for key, value in pairs(a._job) do job[key] = value end
  job.args, job.net = args, net or job.net
  return job
end

-- -- Units of recomputation -----------------------------------------------------------------------

-- Lists of modules, each of which keeps its first one's input: blocks, at each of their calls, or
-- what a Sequential is cut into, at one call of the first; nil where there are none. `switch` turns
-- it on.
local function units_of(net)
  local list = blocks.of(net)
  if #list > 0 then
    local units, seen = {}, {}
    for _, m in ipairs(list) do
      if not seen[m] then units[#units + 1] = { m } end -- one that stands in several places
      seen[m] = true
    end
    return units, function() blocks.recompute(list) end
  end
  if class.is_a(net, require 'ridge.nn.sequential') and #net.children > 1 then
    local n = #net.children
    local segments, units, calls = math.ceil(math.sqrt(n)), {}, {}
    for s = 1, segments do
      local first = math.floor(n * (s - 1) / segments) + 1
      units[s] = {}
      for i = first, math.floor(n * s / segments) do
        local module = net.children[i].module
        calls[module] = (calls[module] or 0) + 1
        if i == first then units[s].call = calls[module] end
        table.insert(units[s], module)
      end
    end
    return units, function() net:recompute(segments) end
  end
end

local function below(module, into)
  if into[module] then return end
  into[module] = true
  for _, c in ipairs(module.children) do below(c.module, into) end
end

-- -- Computed -----------------------------------------------------------------------------------

-- Bytes that go into a unit: at one call of its first module, or at each.
local function inputs_of(unit_of, layers)
  local first, bytes = layers.by_module[unit_of[1]], 0
  for call, n in ipairs(first and first.inputs or {}) do
    if call == (unit_of.call or call) then bytes = bytes + n end
  end
  return bytes
end

-- Sums of a counted pass: of everything, and with units what they change.
local function sums_of(made, units)
  local found, s = made.found, { forward = 0, forward_other = 0, backward = 0, backward_other = 0,
    saved = 0, typed = 0, again = 0, again_other = 0, inner = 0, inner_typed = 0, inputs = 0 }
  local inside = {}
  for _, unit_of in ipairs(units or {}) do
    for _, m in ipairs(unit_of) do below(m, inside) end
    s.inputs = s.inputs + inputs_of(unit_of, made.layers)
  end
  for row, of in pairs(found.rows) do
    local f, b = of.forward, of.backward
    s.forward, s.forward_other = s.forward + f.products, s.forward_other + f.flops - f.products
    s.backward = s.backward + b.products
    s.backward_other = s.backward_other + b.flops - b.products
    if row.module and inside[row.module] then
      s.again, s.again_other = s.again + f.products, s.again_other + f.flops - f.products
    end
  end
  for row, bytes in pairs(found.saved) do
    s.saved, s.typed = s.saved + bytes, s.typed + (found.saved_typed[row] or 0)
    if row and inside[row.module] then
      s.inner, s.inner_typed = s.inner + bytes, s.inner_typed + (found.saved_typed[row] or 0)
    end
  end
  return s
end

-- Sums at another batch, of those at two.
local function sums_at(batch, base, of_base, other, of_other)
  if not of_other then return of_base end
  local out = {}
  for key, value in pairs(of_base) do
    out[key] = value + (of_other[key] - value) * (batch - base) / (other - base)
  end
  return out
end

local function bytes_in(net, dtype, own)
  local bytes = 0
  for _, p in ipairs(net:parameters()) do
    local converts = dtype ~= own and dtypes.kind[p.tensor.dtype] == 'float'
    bytes = bytes + (converts and p.tensor.count * dtypes.bytes[dtype] or p.tensor.bytes)
  end
  return bytes
end

local function computed(a, case, s)
  local ratio = dtypes.bytes[case.dtype] / dtypes.bytes[a.dtype]
  local line = { batch = case.batch, dtype = case.dtype, recompute = case.recompute,
    how = 'computed', bytes = bytes_in(a._job.net, case.dtype, a.dtype), flops = s.forward,
    other_flops = s.forward_other }
  if a.backward then
    line.backward_flops, line.backward_other_flops = s.backward, s.backward_other
    local saved, typed = s.saved, s.typed
    if case.recompute then
      saved, typed = saved - s.inner, typed - s.inner_typed
      saved, typed = saved + s.inputs, typed + s.inputs
      line.backward_flops = line.backward_flops + s.again
      line.backward_other_flops = line.backward_other_flops + s.again_other
    end
    line.saved_bytes = saved - typed + typed * ratio
  end
  return line
end

-- -- Measured -------------------------------------------------------------------------------------

local function run(a, case, args, net, rounds)
  if case.switch then case.switch(net) end
  return require('ridge.analyze').run(job_of(a, args, net), { rounds = rounds })
end

local function measured(a, case, opt)
  local net = a._job.net
  local args = args_of(a, case.batch, case.dtype, opt.batch_axis)
  if case.dtype ~= a.dtype then net = net:clone():to(case.dtype) end
  if case.recompute then
    local _, switch = units_of(net)
    case = setmetatable({ switch = switch }, { __index = case })
  end
  local made = step.unchanged(net, args, run, a, case, args, net, opt.rounds)
  local s = sums_of(made)
  local line = { batch = case.batch, dtype = case.dtype, recompute = case.recompute,
    how = 'measured', bytes = net:num_bytes(), flops = s.forward, other_flops = s.forward_other,
    ms = made.times.forward, step_ms = made.times.total, rounds = made.times.rounds }
  if a.backward then
    line.backward_flops, line.backward_other_flops = s.backward, s.backward_other
    line.saved_bytes = s.saved
  end
  return line
end

-- -- Lines --------------------------------------------------------------------------------------

local Lines = {}

function Lines.__tostring(lines)
  local rows = {}
  for i, l in ipairs(lines) do
    rows[i] = { l.batch or '', l.dtype, l.recompute and 'recomputed' or '', l.how,
      unit.format('bytes', l.bytes), unit.format('count', l.flops),
      l.backward_flops and unit.format('count', l.backward_flops) or '',
      l.saved_bytes and unit.format('bytes', l.saved_bytes) or '',
      l.step_ms and unit.format('ms', l.step_ms) or '' }
  end
  local parts = { columns.text({ 'batch', 'dtype', '', '', 'memory', 'FLOP', 'backward', 'saved',
    'step' }, rows, { right = { true, nil, nil, nil, true, true, true, true, true } }) }
  for _, note in ipairs(lines.notes) do parts[#parts + 1] = note end
  return table.concat(parts, '\n')
end
Lines.__tostring = guard.text(Lines.__tostring)

local function list_of(value, own, what, check)
  local list = value == nil and { own } or type(value) == 'table' and options.list(value, what)
    or { value }
  for _, v in ipairs(list) do check(v) end
  return list
end

local function check_batch(n)
  if type(n) ~= 'number' or n < 1 or n % 1 ~= 0 or n > 2 ^ 31 then
    blame.raise(('what_if: a batch is a whole number from 1, got %s'):format(blame.show(n)), 'EARG',
      'what_if')
  end
end

local function check_dtype(name)
  dtypes.code(name, 'what_if')
  if dtypes.kind[name] ~= 'float' then
    blame.raise(("what_if: a net computes in floats, got '%s'"):format(name), 'EDTYPE', 'what_if')
  end
end

-- Sums at the batch of the analysis, and at another one where a line needs them.
local function counted(a, batches, units, opt, own)
  local base = sums_of(a._made, units)
  local others = false
  for _, n in ipairs(batches) do others = others or n ~= own end
  if not others then return base end
  local other = own <= 8 and 2 * own or math.ceil(own / 2)
  local args = args_of(a, other, a.dtype, opt.batch_axis)
  local made = step.unchanged(a._job.net, args, run, a, {}, args, a._job.net, 0)
  return base, other, sums_of(made, units)
end

--- Lines for each combination; analysis:what_if says what they are.
---@param a table analysis
---@param opts table|nil
---@return table[] lines
function M.lines(a, opts)
  local opt = options.check(SPEC, opts, 'what_if')
  local own = batch_along(a, opt.batch_axis)
  local batches = list_of(opt.batch, own, 'what_if', check_batch)
  local types = list_of(opt.dtype, a.dtype, 'what_if', check_dtype)
  if opt.batch ~= nil and not own then
    blame.raise(opt.batch_axis == 1 and 'what_if: the net was analysed with no tensor that has rows'
      or ('what_if: no input of the net has an axis %d'):format(opt.batch_axis), 'EARG', 'what_if')
  end
  if opt.batch ~= nil and own == 0 then
    blame.raise('what_if: the net was analysed with no rows, which tell nothing of others', 'EARG',
      'what_if')
  end
  local lines = setmetatable({ notes = {} }, Lines)
  local units = opt.recompute and a.backward and units_of(a._job.net) or nil
  if opt.recompute and not units then
    lines.notes[1] = a.backward and 'nothing is recomputed: the net has no chain of modules of '
      .. 'which to keep only the inputs' or 'nothing is recomputed: there is no backward pass'
  end
  local base, other, of_other = counted(a, batches, units, opt, own)
  for _, batch in ipairs(#batches > 0 and batches or { false }) do
    local s = sums_at(batch, own, base, other, of_other)
    for _, dtype in ipairs(types) do
      for _, again in ipairs(units and { false, true } or { false }) do
        local case = { batch = batch or nil, dtype = dtype, recompute = again }
        lines[#lines + 1] = computed(a, case, s)
        if opt.measure then lines[#lines + 1] = measured(a, case, opt) end
      end
    end
  end
  return lines
end

return M
