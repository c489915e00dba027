-- SPDX-License-Identifier: MIT
--- Weights and activations in 8 bits, with ranges that were observed on data.

local accuracy = require 'ridge.quant.accuracy'
local apart = require 'ridge.quant.apart'
local batches = require 'ridge.quant.batches'
local blame = require 'ridge.blame'
local calibrate = require 'ridge.quant.calibrate'
local chain = require 'ridge.quant.chain'
local conv = require 'ridge.quant.conv'
local faster = require 'ridge.quant.faster'
local fold = require 'ridge.quant.fold'
local linear = require 'ridge.quant.linear'
local nets = require 'ridge.quant.nets'
local observers = require 'ridge.quant.observers'
local options = require 'ridge.options'
local report = require 'ridge.quant.report'
local rows_of = require('ridge.quant.dynamic').rows_of
local sums = require 'ridge.quant.sums'

local M = {}

local WHAT = 'quant.static'
local STEPS = { 1, 10, 100, 500 } -- batches after which accuracy is looked at

local SPEC = {
  calibrate = { 'table', required = true, doc = 'a loader of inputs: what ranges are observed on' },
  batches = { 'integer', default = 100, min = 1, doc = 'of them, at most' },
  observer = { 'string', default = 'minmax', choices = observers.NAMES,
    doc = 'what range is made of the values that came' },
  percentile = { 'number', default = 99.99, min = 50, max = 100,
    doc = 'of values that stay inside, for that observer' },
  activations = { 'string', default = 'u8', choices = { 'u8', 'i8' },
    doc = 'u8 with a zero point, or i8 around 0' },
  backend = { 'string', default = 'fbgemm', choices = { 'fbgemm', 'qnnpack' },
    doc = 'the scheme of weights: a scale for each output, or one for a layer' },
  skip = { 'table', doc = 'names of layers, or of modules, that stay as they are' },
  rows = { 'number|boolean', default = 1,
    doc = 'a layer is taken where it is measured to be no slower with so many rows; false: all' },
  validate = { 'table', doc = 'a loader of (x, labels): accuracy after 1, 10, 100, 500 batches' },
}

local PER = { fbgemm = 'channel', qnnpack = 'tensor' }

local function why_not(layer, skipped)
  if skipped(layer.name) then return 'named in skip' end
  if layer.why then return layer.why end
  local kind = getmetatable(layer.module)
  if kind ~= nets.Linear and kind ~= nets.Conv2d then
    return ('static quantization is for nn.Linear and nn.Conv2d, not for %s'):format(layer.class)
  end
  local each = layer.module.weight.count / layer.module.n_out
  if each > linear.MOST_IN / 2 then
    return ('sums of %d products may not fit into i32'):format(each)
  end
end

-- A scale for a whole depthwise convolution costs what nobody wants to pay: its channels have
-- ranges of their own.
local function per_of(opts, module)
  local depthwise = getmetatable(module) == nets.Conv2d and module.n_in > 1
    and module.weight:size(2) == 1
  return depthwise and 'channel' or PER[opts.backend],
    depthwise and opts.backend == 'qnnpack'
end

local function made_of(row, range, opts)
  local module = row.module
  local kind = getmetatable(module) == nets.Conv2d and conv.Conv2d or linear.Linear
  local per, kept = per_of(opts, module)
  if kept then row.note = 'depthwise: a scale for each channel all the same' end
  local made = kind(module, { per = per, name = ('%s: %s'):format(WHAT, row.name), lo = range[1],
    hi = range[2], dtype = opts.activations })
  return made, made.why
end

local function key_of(module, x)
  return ('%s %s %s'):format(tostring(module), x:describe(), tostring(module.options and
    module.layout))
end

-- The net with its layers linked. Sums in bytes have to be shown to be no slower, as layers are.
local function linked(made, ranges, opts, found, taken, asked, list)
  local before = found and made:clone()
  local net, n = chain.link(made, taken, { ranges = ranges.sums, dtype = opts.activations })
  if n == 0 then return net end
  local places = ('%d place%s'):format(n, n == 1 and '' or 's')
  local note = ('values meet in bytes at %s (sums, concats)'):format(places)
  if found then
    local plain = chain.link(before, taken, { ranges = {}, joins = false })
    local took = asked:compare('joins', plain, net, found.x)
    if not took.keep then
      local rows = found.x:size(1)
      net, note = plain, ('values meet in f32 at %s (sums, concats): bytes there take %.2f '
        .. '[%.2f .. %.2f] of the time, at %d row%s'):format(places, took.ratio, took.lo, took.hi,
        rows, rows == 1 and '' or 's')
    end
  end
  list.note = note
  return net
end

-- The net with whole numbers in the places of its layers, from a folded copy and ranges by name.
local function build(base, rows, ranges, opts, found, taken)
  local made, twin = nets.copy(base)
  local map, asked, list = {}, faster.asked(), {}
  for _, row in ipairs(rows) do
    local line = { name = row.name, class = row.class, kind = 'f32', why = row.why }
    if not line.why then
      local after
      after, line.why = made_of(row, ranges[row.name], opts)
      local x = found and found.samples[row.name]
      local took = x and not line.why and asked:compare(key_of(row.module, x), row.module, after, x)
      if took and not took.keep then line.why = faster.why(took, x.ndim > 1 and x:size(1) or 1) end
      if not line.why then
        map[twin[row.module]], line.kind, line.note = after, 'i8', row.note
        line.lo, line.hi = ranges[row.name][1], ranges[row.name][2]
      end
    end
    list[#list + 1] = line
  end
  return linked(nets.exchange(made, map), ranges, opts, found, taken, asked, list), list
end

local function batches_of(n) return ('%d batch%s'):format(n, n == 1 and '' or 'es') end

local function notes_of(opts, found, notes, lines)
  notes[#notes + 1] = ('%s chooses the scheme, %s, and no library: products run in ridge\'s own '
    .. 'paths, sums exact in i32'):format(opts.backend, PER[opts.backend] == 'channel'
    and 'a scale for each output' or 'one scale for each weight')
  local fewer = found.n < opts.batches
    and ('; %d were asked for, and the loader has no more'):format(opts.batches) or ''
  notes[#notes + 1] = ('activations %s, observer %s, calibrated with %s%s'):format(
    opts.activations, opts.observer, batches_of(found.n), fewer)
  notes[#notes + 1] = lines.note
  for _, line in ipairs(lines) do
    if line.note then notes[#notes + 1] = ('%s: %s'):format(line.name, line.note) end
  end
  return notes
end

-- The layers of a folded net, and why some stay.
local function layers_of(base, skipped)
  local rows = nets.layers(base)
  if #rows == 0 then blame.raise(WHAT .. ': the net has no layer with weights', 'EARG') end
  for _, row in ipairs(rows) do row.why = why_not(row, skipped) end
  return rows
end

-- Ranges by the name of a layer, what calibration saw, and ranges after fewer batches.
local function observe(base, rows, opts, sample_rows)
  local watched, by_name, snapshots, wanted = {}, {}, {}, {}
  for _, row in ipairs(rows) do
    if not row.why then
      watched[#watched + 1] = row
      by_name[row.name] = observers.new(opts.observer, { dtype = opts.activations,
        percentile = opts.percentile }, ('%s: %s'):format(WHAT, row.name))
    end
  end
  local added = sums.watch(base, opts.observer, { dtype = opts.activations,
    percentile = opts.percentile })
  local function ranges_now()
    local ranges = {}
    for name, o in pairs(by_name) do ranges[name] = { o:range() } end
    ranges.sums = added:ranges()
    return ranges
  end
  for _, n in ipairs(opts.validate and STEPS or {}) do wanted[n] = true end
  local ok, found = pcall(calibrate.run, base, watched, opts.calibrate, { what = WHAT,
    batches = opts.batches, rows = sample_rows, see = function(name, x) by_name[name]:add(x) end,
    after = function(n)
      if wanted[n] then snapshots[#snapshots + 1] = { n = n, ranges = ranges_now() } end
    end })
  added:leave()
  if not ok then error(found, 0) end
  local ranges = ranges_now()
  if opts.validate and not wanted[found.n] then
    snapshots[#snapshots + 1] = { n = found.n, ranges = ranges }
  end
  return ranges, found, snapshots
end

-- Accuracy of what fewer batches give.
local function curve_of(net, base, rows, snapshots, opts, taken)
  local curve = {}
  for _, snapshot in ipairs(snapshots) do
    local q = build(base, rows, snapshot.ranges, opts, nil, taken)
    local a = accuracy.pair(net, q, opts.validate, WHAT, 'validate')
    curve[#curve + 1] = { batches = snapshot.n, share = a.quantized.share, lo = a.quantized.lo,
      hi = a.quantized.hi, changed = a.changed, n = a.n }
  end
  return curve
end

local function curve_notes(curve, notes)
  for _, point in ipairs(curve) do
    notes[#notes + 1] = ('after %s: accuracy %.2f %% [%.2f, %.2f], %d of %d answers changed')
      :format(batches_of(point.batches), 100 * point.share, 100 * point.lo, 100 * point.hi,
        point.changed, point.n)
  end
end

--- A copy of a net in which dense layers and convolutions multiply in 8 bits, with ranges of what
--- comes in that are observed on `calibrate` and then fixed. Batch normalisation and activations
--- that follow a layer in a Sequential are folded into it first; between layers that follow each
--- other numbers stay bytes, through the sums of nn.Residual and the branches of nn.Concat too,
--- where the net is measured to be no slower so. `fbgemm` and `qnnpack` name the scheme, as they do
--- in PyTorch, and no
--- library: a scale for each output, or one for a layer (never for a depthwise convolution).
---
--- As with quant.dynamic a layer is taken where it is measured to be no slower with `rows` rows.
--- quant.compare refuses the calibration data as `test`. The net stays as it was; the copy is in
--- evaluation mode.
---@param net table module in evaluation mode
---@param opts table {calibrate = loader, batches = 100, observer = 'minmax', percentile = 99.99,
---  activations = 'u8', backend = 'fbgemm', skip = {'head'}, rows = 1, validate = loader}
---@return table q
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 8), ridge.nn.ReLU()):eval()
-- >> local loader = ridge.data.Loader({ ridge.randn(32, 8) }, { batch = 8 })
-- >> return ridge.quant.static(net, { calibrate = loader, rows = false })
function M.static(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT)
  local rows_asked = rows_of(opts.rows, WHAT)
  local base = nets.copy(net)
  local x, again = batches.peek(opts.calibrate, WHAT, 'calibrate')
  opts.calibrate = again
  local taken, axes = apart.of(base, x)
  local notes = fold.fold(base, taken, axes)
  local rows = layers_of(base, nets.skipped(net, opts.skip, WHAT))
  local ranges, found, snapshots = observe(base, rows, opts, rows_asked or 1)
  found.x = calibrate.rows_of(x, rows_asked or 1):detach():clone()
  if opts.validate then
    found.seen:refuse(opts.validate, WHAT, 'validate', 'the calibration data')
  end
  local curve = curve_of(net, base, rows, snapshots, opts, taken)
  local q, lines = build(base, rows, ranges, opts, rows_asked and found, taken)
  notes_of(opts, found, notes, lines)
  curve_notes(curve, notes)
  report.attach(q, 'static', lines, notes)
  q._quant.seen, q._quant.curve = found.seen, curve
  return q
end

--- The settings of document 004's int8 preset, for quant.static: minmax, u8, a scale for each
--- output.
---@param opts table|nil what differs: calibrate, batches, ...
---@return table opts for quant.static
-- >> return ridge.quant.int8({ batches = 10 }).observer
function M.int8(opts)
  local made = { observer = 'minmax', activations = 'u8', backend = 'fbgemm', batches = 100 }
  if opts ~= nil and type(opts) ~= 'table' then options.check(SPEC, opts, 'quant.int8') end
  for name, value in pairs(opts or {}) do
    if not SPEC[name] then options.check(SPEC, opts, 'quant.int8') end
    made[name] = value
  end
  return made
end

return M
