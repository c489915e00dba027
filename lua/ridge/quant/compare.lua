-- SPDX-License-Identifier: MIT
--- A net and what was made of it, side by side: time in paired blocks, bytes that are held, answers
--- on the same rows, and how much of the work is done in whole numbers.

local ab = require('ridge.measure.ab').ab
local accuracy = require 'ridge.quant.accuracy'
local analyze = require('ridge.analyze').analyze
local blame = require 'ridge.blame'
local gained = require 'ridge.quant.gained'
local guard = require 'ridge.guard'
local capture = require('ridge.capture').capture
local held = require 'ridge.quant.held'
local inference = require('ridge.tensor.mode').inference
local make = require 'ridge.tensor.make'
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local services = require('ridge.measure.native').services
local random = require 'ridge.random'
local ran = require 'ridge.quant.ran'
local ref = require 'ridge.ffi.ref'
local text = require 'ridge.quant.compare_text'

local M = {}

local WHAT = 'quant.compare'
local BLOCKS, SLOTS = 12, 2 -- of ridge.measure.ab in this process: ABBA, so two slots of each

local SPEC = {
  shape = { 'table', doc = 'sizes of an input that is drawn, such as { 1, 128 }' },
  input = { 'any', doc = 'an input, where a drawn one does not do' },
  iterations = { 'integer', default = 1000, min = 1, max = 1e7,
    doc = 'calls of each net that are timed, at least' },
  test = { 'table', doc = 'a loader of (x, labels): accuracy of both' },
}

local Comparison = {}
Comparison.__index = Comparison

local function input_of(opts, net)
  if opts.input ~= nil then
    if opts.shape then blame.raise(WHAT .. ': give shape or input, not both', 'EARG') end
    return ref.need(opts.input, WHAT .. ': input')
  end
  if not opts.shape then
    blame.raise(WHAT .. ": option shape is missing, the sizes of an input such as { 1, 128 }",
      'EARG')
  end
  local sizes = { unpack(options.list(opts.shape, WHAT .. ': shape')) }
  local first = net:parameters()[1]
  sizes[#sizes + 1] = { generator = random.generator(1),
    device = first and first.tensor.device or nil }
  return make.randn(unpack(sizes))
end

-- Plans are compared with plans; slots are so long that all calls come together.
local function times(net, q, x, iterations)
  local a, b, now = capture(inference, net, x), capture(inference, q, x), services().now
  local function ns(plan)
    for _ = 1, 3 do plan() end
    local begin = now()
    for _ = 1, 5 do plan() end
    return (now() - begin) / 5
  end
  local each = math.ceil(iterations / (BLOCKS * SLOTS))
  local slot = math.max(2.5e6, each * math.max(ns(a), ns(b)))
  -- a quantized net is meant to answer a little else: by how much is said by its answers
  local found = ab { a = a, b = b, check = false, blocks = BLOCKS, slot_ns = math.min(slot, 1e10) }
  return found, a, b
end

local function is_int8(row) return row.kind:find '^i8' ~= nil or row.kind:find '^u8' ~= nil end

-- Which share of the products' operations was made in whole numbers, of what really ran.
local function coverage(q, x)
  local about = rawget(q, '_quant')
  local int8, other, all, conversions = {}, {}, 0, 0
  for _, row in ipairs(about.rows) do
    local list = is_int8(row) and int8 or other
    list[#list + 1] = row
  end
  local flops = 0
  for _, layer in ipairs(analyze(q, x, { rounds = 0 }).layers) do
    all = all + layer.flops
    if layer.class == 'quant.Linear' or layer.class == 'quant.Conv2d' then
      flops = flops + layer.flops
    end
  end
  nets.each(q, function(module)
    if module.conversions then conversions = conversions + module:conversions() end
  end)
  return { share = all > 0 and flops / all or 0, flops = all, int8 = int8, left = other,
    paths = ran.paths(q, x),
    conversions = conversions, layers = #about.rows, method = about.method, notes = about.notes }
end

-- What has to be said where nothing was gained.
local function verdict(r)
  local list, covered, kinds = {}, r.coverage, {}
  for _, rows in ipairs { covered.int8, covered.left } do
    for _, row in ipairs(rows) do kinds[#kinds + 1] = row.kind end
  end
  local of = gained.of(kinds)
  list[1] = gained.speed(r.speedup_lo, r.speedup_hi, of)
  if #covered.int8 == 0 and of ~= 'packed' and covered.method ~= 'half' then
    list[#list + 1] = 'nothing runs in whole numbers'
  end
  if r.bytes.quantized.mb >= r.bytes.original.mb then
    list[#list + 1] = 'not smaller: copies packed for products are held beside what is stored'
  end
  return list
end

--- A net and what quant made of it, measured: speed by paired blocks of plans, megabytes of what
--- both hold after a call (scales, zero points and packed copies among it), coverage, and on `test`
--- accuracy with its difference, the exact McNemar test, answers changed and the divergence (KL)
--- from the original's outputs.
---
--- Rows that q was calibrated with are refused as `test`.
---@param net table module in evaluation mode
---@param q table what quant made of it
---@param opts table {shape = {1, 128} or input = Tensor, iterations = 1000, test = loader}
---@return table r speedup, speedup_lo, speedup_hi, original_ms, quantized_ms, bytes (original,
---  quantized: stored, packed, scratch, mb), accuracy (n, original, quantized, difference, p,
---  changed, kl), coverage (share, conversions, paths: kernels that ran, int8, left),
---  notes; print()
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(64, 64)):eval()
-- >> local q = ridge.quant.dynamic(net, { rows = false })
-- >> return ridge.quant.compare(net, q, { shape = { 1, 64 }, iterations = 10 })
function M.compare(net, q, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT)
  if not nets.is_module(q) or not rawget(q, '_quant') then
    blame.raise(('%s: the second is to be a quantized net, got %s'):format(WHAT, blame.show(q)),
      'EARG')
  end
  local x = input_of(opts, net)
  local seen = q._quant.seen
  if opts.test and seen then
    seen:refuse(opts.test, WHAT, 'test', q._quant.seen_as or 'the calibration data')
  end
  local found, a, b = times(net, q, x, opts.iterations)
  local r = { speedup = 1 / found.ratio, speedup_lo = 1 / found.ci_hi,
    speedup_hi = 1 / found.ci_lo, original_ms = found.a_ns / 1e6,
    quantized_ms = found.b_ns / 1e6, comparison = found,
    shape = x:size(), bytes = { original = held.bytes(net, a), quantized = held.bytes(q, b) } }
  a:release()
  b:release()
  r.coverage = coverage(q, x)
  if opts.test then r.accuracy = accuracy.pair(net, q, opts.test, WHAT) end
  r.notes = verdict(r)
  return setmetatable(r, Comparison)
end

function Comparison:__tostring() return text.of(self) end

--- Print it.
function Comparison:print() print(tostring(self)) end

guard.result(Comparison)

return M
