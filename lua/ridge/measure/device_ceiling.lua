-- SPDX-License-Identifier: MIT
--- A device's roofs, measured with what ridge itself runs there: a copy inside its cache, a copy
--- over its memory, and products of large matrices in each type.
--
-- They are no loops of multiply-adds in registers as on the CPU: the arithmetic that a device's
-- tensor cores reach is that of its best product. Inputs are random, since a device draws less
-- power on zeros and then runs faster than on anybody's numbers.

local C = require 'ridge.ffi.lib'
local device = require 'ridge.measure.device'
local native = require 'ridge.measure.native'
local state = require 'ridge.state'

local M = {}

-- Sides of the matrices: the larger ones where a product of the smaller is over in no time.
local SIDE, LARGE_SIDE, LARGE_BELOW_NS = 4096, 8192, 5e6

local PRODUCTS = { { 'product.f64', 'f64' }, { 'product.f32', 'f32' },
  { 'product.tf32', 'f32', tf32 = true }, { 'product.f16', 'f16' }, { 'product.bf16', 'bf16' } }

local TF32 = state.exchange(function(value)
  local modes = C.rg_device_modes_now()
  local before = modes.tf32
  modes.tf32 = value
  return before
end)

-- Call a function while products of f32 may, or may not, round their factors; plans that are
-- captured meanwhile go on doing so.
local function with_tf32(on, f, ...)
  return state.with(TF32, { value = on and 1 or 0 }, f, ...)
end

-- A plan that is measured as a rate: work is what one call does.
local function ceiling_of(name, unit, plan, work)
  local windows, k = native.windows(plan), 1
  local self = { name = name, unit = unit }
  function self.run(min_ns)
    while true do
      local window = windows(k, 1, false)[1]
      self.clock_mhz = window.clock_mhz or self.clock_mhz
      if window.ns >= min_ns then return work * k / window.ns * 1e9 end
      k = math.max(k + 1, math.min(8 * k, math.ceil(1.2 * k * min_ns / math.max(window.ns, 1))))
    end
  end
  function self.close() plan:release() end
  return self
end

local function copy_of(name, where, bytes)
  local ridge = require 'ridge'
  local n = math.max(1, math.floor(bytes / 8)) -- of two tensors of f32
  local x = ridge.randn(n, { device = where, generator = ridge.generator(1) })
  local plan = ridge.capture(function() return x:clone() end)
  return ceiling_of(name, 'B/s', plan, 2 * x.bytes)
end

local function product_plan(where, dtype, side)
  local ridge = require 'ridge'
  local generator = ridge.generator(1)
  local function matrix()
    return ridge.randn(side, side, { device = where, generator = generator }):to(dtype)
  end
  local a, b = matrix(), matrix()
  return ridge.capture(function() return a:matmul(b) end)
end

local function product_of(name, where, dtype, side, tf32)
  local function make(n)
    return with_tf32(tf32, function()
      return ceiling_of(name, 'flop/s', product_plan(where, dtype, n), 2 * n ^ 3)
    end)
  end
  if side then return make(side) end
  local small = make(SIDE)
  small.run(1) -- the first one also loads what it needs
  local ns = 2 * SIDE ^ 3 / small.run(1) * 1e9
  if ns > LARGE_BELOW_NS then return small end
  small.close()
  return make(LARGE_SIDE)
end

local function is_wanted(name, kinds)
  for _, start in ipairs(kinds or { '' }) do
    if name:sub(1, #start) == start then return true end
  end
  return false
end

--- The ceilings of a device, ready to be measured.
---@param where string 'cuda:0' ...
---@param opt table|nil kinds (how names begin), side (of the matrices), l2_bytes, dram_bytes (both
---  tensors of a copy together); what is left out is found by the device's facts
---@return table[] ceilings name ('bw.l2', 'bw.dram', 'product.f32', ...), unit, run(min_ns) gives a
---  rate, clock_mhz (while it ran last), close()
function M.open(where, opt)
  opt = opt or {}
  local facts = device.facts(device.number(where, 'calibrate'))
  local cache, list = facts.cache or 2 ^ 26, {}
  local dram = math.max(8 * cache, 2 ^ 28)
  local sizes = { ['bw.l2'] = opt.l2_bytes or cache / 4,
    ['bw.dram'] = opt.dram_bytes or math.min(dram, (facts.free or 2 ^ 30) / 8) }
  for _, name in ipairs { 'bw.l2', 'bw.dram' } do
    if is_wanted(name, opt.kinds) then list[#list + 1] = copy_of(name, where, sizes[name]) end
  end
  for _, p in ipairs(PRODUCTS) do
    if is_wanted(p[1], opt.kinds) then
      list[#list + 1] = product_of(p[1], where, p[2], opt.side, p.tf32)
    end
  end
  return list
end

return M
