-- SPDX-License-Identifier: MIT
--- Weights in a few bits; what comes in stays what it is.

local blame = require 'ridge.blame'
local awq = require 'ridge.quant.awq'
local calibrate = require 'ridge.quant.calibrate'
local faster = require 'ridge.quant.faster'
local gptq = require 'ridge.quant.gptq'
local groups = require 'ridge.quant.groups'
local int8 = require 'ridge.quant.int8'
local make = require 'ridge.tensor.make'
local masked = require 'ridge.nn.masked'
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local packed = require 'ridge.quant.packed'
local padding = require 'ridge.quant.padding'
local random = require 'ridge.random'
local report = require 'ridge.quant.report'
local rows_of = require('ridge.quant.dynamic').rows_of
local second_moment = require 'ridge.quant.second_moment'

local M = {}

local WHAT = 'quant.weights'

local SPEC = {
  bits = { 'integer', default = 4, choices = groups.BITS, doc = 'of a weight' },
  group = { 'integer', default = 32, choices = groups.GROUPS, doc = 'weights that share a scale' },
  minimum = { 'boolean', default = false, doc = 'a minimum beside each scale' },
  method = { 'string', default = 'rtn', choices = { 'rtn', 'mse', 'awq', 'gptq' },
    doc = 'the nearest codes; with scales of the least error; chosen for the inputs that come' },
  calibrate = { 'table', doc = 'a loader of inputs, for awq and gptq' },
  batches = { 'integer', default = 100, min = 1, doc = 'of them, at most' },
  pad = { 'boolean', default = false,
    doc = 'features of zeros where groups do not divide the inputs of a layer' },
  skip = { 'table', doc = 'names of layers, or of modules, that stay as they are' },
  rows = { 'number|boolean', default = 1,
    doc = 'a layer is taken where it is measured to be no slower with so many rows; false: all' },
}

local NEED = { awq = true, gptq = true }

local function check(opts)
  if NEED[opts.method] and not opts.calibrate then
    blame.raise(('%s: method %s rounds for the inputs that come: option calibrate is a loader of '
      .. 'them'):format(WHAT, opts.method), 'EARG')
  end
  if opts.calibrate and not NEED[opts.method] then
    blame.raise(('%s: method %s looks at weights alone; calibrate is for awq and gptq'):format(
      WHAT, opts.method), 'EARG')
  end
end

local function why_not(layer, skipped)
  if skipped(layer.name) then return 'named in skip' end
  if layer.why then return layer.why end
  if getmetatable(layer.module) ~= nets.Linear then
    return ('weights of a few bits are for nn.Linear, not for %s'):format(layer.class)
  end
end

-- What is not pruned of a layer's weight, or nil: its mask, or of a net whose masks were fixed what
-- is not 0.
local function kept_of(row, weight)
  local mask = masked.of(row.module, 'weight')
  return mask or row.pruned and weight:ne(0) or nil
end

-- A layer's weight in its codes, and why it cannot be.
local function rounded(row, moments, opts)
  local weight = row.module.weight:detach()
  if not int8.is_finite(weight) then
    blame.raise(('%s: %s: its weight has nan or inf in it, which no range holds'):format(WHAT,
      row.name), 'EARG')
  end
  local w = padding.behind(weight:to 'f32', row.padding, 2)
  local keep = kept_of(row, weight)
  if keep and opts.minimum and keep:all():item() == 0 then
    return nil, 'it is pruned, and with a minimum 0 is no code: what is pruned would not stay 0'
  end
  local how = { bits = opts.bits, group = opts.group, minimum = opts.minimum,
    search = opts.method == 'mse', keep = keep and padding.behind(keep, row.padding, 2) }
  local found
  if opts.method == 'gptq' then found = gptq.round(w, moments, how)
  elseif opts.method == 'awq' then found = awq.round(w, moments, how)
  else found = groups.round(w, how) end
  local why = groups.why_not(w, found, how)
  return not why and found or nil, why
end

-- Second moments of what comes into layers, by name.
local function observe(made, rows, twin, opts)
  local watched, by_name = {}, {}
  for _, row in ipairs(rows) do
    if not row.why then
      watched[#watched + 1] = { name = row.name, module = twin[row.module] }
      by_name[row.name] = second_moment.new(row.module.n_in + row.padding)
      by_name[row.name].padding = row.padding
    end
  end
  local found = calibrate.run(made, watched, opts.calibrate, { what = WHAT, batches = opts.batches,
    see = function(name, x)
      if not int8.is_finite(x) then
        blame.raise(('%s: %s: what comes in has nan or inf in it'):format(WHAT, name), 'EARG')
      end
      local moments = by_name[name]
      moments:add(padding.behind(x, moments.padding, x.ndim))
    end })
  for _, layer in ipairs(watched) do
    if by_name[layer.name].n == 0 then
      blame.raise(('%s: %s: it never ran with the calibration data: name it in skip'):format(WHAT,
        layer.name), 'EARG')
    end
  end
  return by_name, found
end

-- The packed layer of a row, or why there is none.
local function layer_of(row, twin, moments, opts, asked, rows_asked)
  local codes, why = rounded(row, moments, opts)
  if not codes then return nil, why end
  local before = twin[row.module]
  local after = packed.PackedLinear(before, codes, { bits = opts.bits, group = opts.group,
    padding = row.padding })
  if not rows_asked then return after end
  local took = asked:compare(('%d %d'):format(before.n_in, before.n_out), before, after,
    make.randn(rows_asked, before.n_in, { device = before.weight.device,
      generator = random.generator(1) }))
  if took.keep then return after end
  return nil, faster.why(took, rows_asked, ('%d bits'):format(opts.bits))
end

--- A copy of a net with the weights of dense layers in a few bits, in groups that share a scale in
--- f16 (4 bits in groups of 32 are 4.5 bits), and are opened as they are multiplied; what comes in
--- stays f32.
---
--- `rtn` takes the nearest code, `mse` scales with the least error; `awq` and `gptq` round for the
--- inputs of `calibrate`: the first scales columns by what comes in, the second lets weights that
--- are not yet rounded make up for those that are. What was pruned stays 0.
---
--- A layer is taken where paired blocks show it to be no slower with `rows` rows: small ones, whose
--- weights stay in the caches, often are. The others stay f32, and quant.report(q) says which and
--- why; `rows = false` takes all, for their bytes. The net stays as it was; the copy is in
--- evaluation mode.
---@param net table module in evaluation mode
---@param opts table|nil {bits = 4, group = 32, method = 'rtn', minimum = false, calibrate = loader,
---  batches = 100, pad = false, skip = {'head'}, rows = 1}
---@return table q
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(64, 32), ridge.nn.ReLU()):eval()
-- >> return ridge.quant.weights(net, { bits = 4, group = 32, rows = false })
function M.weights(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT)
  check(opts)
  local rows_asked, skipped = rows_of(opts.rows, WHAT), nets.skipped(net, opts.skip, WHAT)
  local made, twin = nets.copy(net)
  local rows, kind = nets.layers(net), 'w' .. opts.bits
  for _, row in ipairs(rows) do
    row.why = why_not(row, skipped)
    if not row.why then row.padding = padding.of(row, opts, WHAT) end
    row.pruned = rawget(net, '_prune') ~= nil
  end
  if #rows == 0 then blame.raise(WHAT .. ': the net has no layer with weights', 'EARG') end
  local moments, found = {}, nil
  if opts.calibrate then moments, found = observe(made, rows, twin, opts) end
  local list, map, asked = {}, {}, faster.asked()
  for _, row in ipairs(rows) do
    local line, after = { name = row.name, class = row.class, kind = 'f32', why = row.why }, nil
    if not row.why then
      after, line.why = layer_of(row, twin, moments[row.name], opts, asked, rows_asked)
    end
    if after then map[twin[row.module]], line.kind = after, kind end
    list[#list + 1] = line
  end
  local notes = { ('%s, %d bits in groups of %d%s: %.3g bits a weight with scales'):format(
    opts.method, opts.bits, opts.group, opts.minimum and ' with a minimum' or '',
    groups.bits_of(opts)) }
  if not rows_asked and next(map) then
    notes[2] = 'layers were taken whether that is faster or not (rows = false); quant.compare '
      .. 'measures the net'
  end
  if found and found.n < opts.batches then
    notes[#notes + 1] = ('calibrated with %d batches; %d were asked for, and the loader has no '
      .. 'more'):format(found.n, opts.batches)
  end
  local q = report.attach(nets.exchange(made, map), 'weights', list, notes)
  q._quant.seen = found and found.seen
  return q
end

return M
