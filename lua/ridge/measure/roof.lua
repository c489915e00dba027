-- SPDX-License-Identifier: MIT
--- The roofline (Williams, Waterman and Patterson, 2009): the time that the machine's measured
--- ceilings allow for a call, and which of them it is that allows no less.

local M = {}

-- Which ceilings bound the arithmetic of a type; of several the highest.
local ARITHMETIC = {
  f64 = { 'fma.f64', 'product.f64' }, f32 = { 'fma.f32', 'product.f32' },
  bf16 = { 'amx.bf16', 'dot.bf16', 'product.bf16' }, f16 = { 'product.f16' },
  tf32 = { 'product.tf32' },
}
-- What a type computes in where the machine has no units for it.
local INSTEAD = { bf16 = 'f32', f16 = 'f32', tf32 = 'f32' }

local LEVELS = { { 'L1', 'bw.l1', 'l1d' }, { 'L2', 'bw.l2', 'l2' }, { 'LLC', 'bw.llc', 'l3' },
  { 'DRAM', 'bw.dram' } }

-- f32 times fixed signs goes to AMX as three products of bf16 (core/cpu/gemm_signs.c).
local SIGN_PRODUCTS = 3

local function highest(ceilings, names, key)
  local best
  for _, name in ipairs(names or {}) do
    local ceiling = ceilings[name]
    if ceiling then best = math.max(best or 0, ceiling[key] or ceiling.value) end
  end
  return best
end

--- Ceilings by name out of a list of { name =, value =, ci_hi = }.
---@param list table
---@return table
function M.by_name(list)
  local ceilings = {}
  for _, c in ipairs(list) do ceilings[c.name] = c end
  return ceilings
end

--- The least nanoseconds a call's arithmetic takes; nil when no ceiling of its type is known.
---@param cost table flops; sign_flops: those of them that multiply by fixed signs; dtype; tf32:
---  products of f32 may round their factors, so that another ceiling bounds them
---@param ceilings table by name
---@param key string|nil 'ci_hi': hold against the upper end of the ceilings' intervals
---@return number|nil ns
function M.compute_ns(cost, ceilings, key)
  if not cost.flops then return nil end
  local kind = cost.dtype == 'f32' and cost.tf32 and 'tf32' or cost.dtype
  local rate = highest(ceilings, ARITHMETIC[kind], key)
    or highest(ceilings, ARITHMETIC[INSTEAD[kind]], key)
  if not rate then return nil end
  local signs = cost.dtype == 'f32' and cost.sign_flops or 0
  local tiles = signs > 0 and highest(ceilings, { 'amx.bf16' }, key)
  if not tiles then return cost.flops / rate * 1e9 end
  -- two kinds of units that work side by side
  return math.max((cost.flops - signs) / rate, SIGN_PRODUCTS * signs / tiles) * 1e9
end

--- The least nanoseconds a call's compulsory bytes take: each from the fastest level that can hold
--- it, for a roof is what nothing can pass. Private caches (L1, L2) count once for each thread.
---@param cost table bytes
---@param ceilings table by name
---@param machine table l1d, l2, l3 in bytes; threads that measured the ceilings, 1 when left out
---@return number|nil ns
---@return string|nil level L1, L2, LLC or DRAM: the one that takes longest
function M.memory_ns(cost, ceilings, machine)
  local rest, held, ns, slowest, name = cost.bytes, 0, 0, 0, nil
  if not rest then return nil end
  for _, level in ipairs(LEVELS) do
    local ceiling, holds = ceilings[level[2]], level[3] and machine[level[3]] or math.huge
    if level[3] == 'l1d' or level[3] == 'l2' then holds = holds * (machine.threads or 1) end
    local part = ceiling and math.max(0, math.min(rest, holds - held)) or 0
    if part > 0 then
      local took = part / ceiling.value * 1e9
      if took >= slowest then slowest, name = took, level[1] end
      ns, rest, held = ns + took, rest - part, held + part
    end
  end
  -- what no measured level holds comes from the last one
  if not name or rest > 0 then return nil end
  return ns, name
end

--- The least nanoseconds a call takes, and the roof that says so.
---@param cost table flops, sign_flops, bytes, dtype
---@param ceilings table by name
---@param machine table l1d, l2, l3 in bytes
---@return number|nil ns
---@return string|nil roof compute, L1, L2, LLC or DRAM
-- >> require('ridge.measure.roof').least({ flops = 2e9, dtype = 'f32' },
-- >>   { ['fma.f32'] = { value = 4e11 } }, {})
function M.least(cost, ceilings, machine)
  local compute = M.compute_ns(cost, ceilings)
  local memory, level = M.memory_ns(cost, ceilings, machine)
  if not compute then return nil end
  if not memory or compute >= memory then return compute, 'compute' end
  return memory, level
end

--- Rate over the roof that nothing can pass, as the flag ROOF judges it: the upper end of each
--- ceiling's interval, and bytes against the fastest level, where a small working set lives.
---@param cost table flops, sign_flops, bytes, dtype
---@param ns number the time of a call
---@param ceilings table by name
---@return number|nil share above 1 the counts are wrong, or the machine has become faster
function M.share(cost, ns, ceilings)
  local compute = M.compute_ns(cost, ceilings, 'ci_hi')
  local rate = highest(ceilings, { 'bw.l1', 'bw.l2', 'bw.llc', 'bw.dram', 'triad.l1' }, 'ci_hi')
  local memory = rate and cost.bytes and cost.bytes / rate * 1e9
  if not compute and not memory then return nil end
  return math.max(compute or 0, memory or 0) / ns
end

return M
