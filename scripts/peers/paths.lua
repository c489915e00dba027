-- SPDX-License-Identifier: MIT
--- How far the path that 'auto' takes for a product is from the fastest one: ridge.autotune over
--- shapes drawn at random and those of bench.lua, for each instruction set.
--
--     ./ridge scripts/peers/paths.lua [--shapes 200] [--threads 1] [--isa avx2,avx512] [--most 1.3]
--     RIDGE_ISA=avx2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell ./ridge ... --isa avx2 --fit
--
-- Sizes are drawn evenly in their logarithm; each product once with a weight that is kept packed
-- and once with two plain factors, in f32 and bf16 by turns.  A line for each product that is more
-- than --most off, and a summary.  Libraries choose their own instruction set, which only the
-- environment limits.
--
-- With --fit also the table of core/cpu/path_cost.c: nanoseconds of each path as a sum of the terms
-- named there, none below 0 (lua/ridge/fitted.lua). With --probe this machine is probed first
-- (ridge.backend.probe), and a second summary tells the path by what was fitted.

local choices = require 'ridge.choices'
local fitted = require 'ridge.fitted'
local ridge = require 'ridge'

local opt = ridge.args {
  { 'shapes', 200, 'how many are drawn', min = 1, integer = true },
  { 'threads', 1, 'compute threads', min = 1, integer = true },
  { 'isa', '', 'instruction sets, by comma; all that there are when left out' },
  { 'most', 1.3, 'times of the fastest path that are told', min = 1 },
  { 'seed', 1, 'which shapes', min = 0, integer = true },
  { 'fit', false, 'print the table of core/cpu/path_cost.c' },
  { 'probe', false, 'probe this machine first' },
}

local WORK = 2 ^ 29 -- products of an m x k x n at most

local BENCH = { { 1, 64, 64 }, { 32, 64, 128 }, { 32, 128, 64 }, { 256, 2048, 1024 },
  { 64, 400, 120 }, { 64, 120, 84 }, { 64, 84, 10 }, { 1024, 256, 768 }, { 1024, 256, 1024 },
  { 1024, 1024, 256 }, { 128, 1024, 512 }, { 128, 1024, 64 }, { 128, 64, 512 } }

local function shapes()
  local list = {}
  for i, s in ipairs(BENCH) do list[i] = s end
  ridge.seed(opt.seed)
  local draws = ridge.rand(opt.shapes * 40, 3):tolist()
  for _, d in ipairs(draws) do
    if #list == #BENCH + opt.shapes then break end
    local s = {}
    for i = 1, 3 do s[i] = math.floor(2 ^ (d[i] * 11.5)) end
    if s[1] * s[2] * s[3] <= WORK then list[#list + 1] = s end
  end
  return list
end

local function fastest(row)
  local best
  for name, t in pairs(row.paths) do
    if not best or t.ns < row.paths[best].ns then best = name end
  end
  return best
end

-- -- Fitting ----------------------------------------------------------------------------------

local seen = {} -- by 'f32 kept': rows

local function print_fit()
  for _, kind in ipairs { 'f32 kept', 'f32 plain', 'bf16 kept', 'bf16 plain' } do
    local costs = fitted.fit(seen[kind] or {})
    for _, path in ipairs { 'onednn', 'openblas', 'own' } do
      if costs[path] then
        local name = kind:upper():gsub(' ', '][')
        print(('  [%s][RG_GEMM_%s] = { %s },'):format(name, path:upper(),
          table.concat(costs[path], ', ')))
      end
    end
  end
end

-- -- Looking ----------------------------------------------------------------------------------

local function look(isa, s, dtype, kept)
  local m, k, n = s[1], s[2], s[3]
  local x = ridge.randn(m, k):to(dtype)
  local f
  if kept then
    local layer = ridge.nn.Linear(k, n, { bias = false }):to(dtype)
    f = function() return ridge.inference(layer, x) end
  else
    local w = ridge.randn(k, n):to(dtype)
    f = function() return x:matmul(w) end
  end
  local by = choices.why(f)[1] -- by what was fitted, where this machine was probed
  local row = choices.measured(15, f)[1]
  if not row or not row.paths[by.path] then return nil end
  row.chosen = by.path
  local kind = dtype .. (kept and ' kept' or ' plain')
  seen[kind] = seen[kind] or {}
  if kept or m > 1 or n > 1 then table.insert(seen[kind], row) end -- dot products: path_row.c
  local best = fastest(row)
  local off = row.paths[row.chosen].ns / row.paths[best].ns
  if off > opt.most then
    print(('%-12s %5d x %4d x %4d %-4s %-5s %s %.2f times as long as %s'):format(isa, m, k, n,
      dtype, kept and 'kept' or 'plain', row.chosen, off, best))
  end
  return off, row
end

local function survey(isa, list)
  local n, over, worst, sum, tuned, built_in = 0, 0, 0, 0, 0, 0
  for i, s in ipairs(list) do
    for _, kept in ipairs { true, false } do
      local off, row = look(isa, s, i % 2 == 0 and 'bf16' or 'f32', kept)
      if off then
        n, sum, worst = n + 1, sum + math.log(off), math.max(worst, off)
        if off > opt.most then over = over + 1 end
        if row.path ~= row.chosen then tuned = tuned + 1 end
        built_in = built_in + math.log(row.paths[row.standard].ns / row.paths[fastest(row)].ns)
      end
    end
    collectgarbage()
    if i % 20 == 0 then io.stderr:write(('%s: %d of %d\n'):format(isa, i, #list)) end
  end
  print(('%-12s %d products, the path that auto takes %.2f times as long as the fastest in the '
    .. 'mean, %.2f at most, over %g in %d; tuning takes another in %d; what is built in: '
    .. '%.2f'):format(isa, n, math.exp(sum / n), worst, opt.most, over, tuned,
    math.exp(built_in / n)))
  if opt.fit then print_fit() end
  seen = {}
end

ridge.set_num_threads(opt.threads)
local wanted = opt.isa ~= '' and opt.isa or 'base,avx2,avx512,avx512_bf16,amx'
local list = shapes()
for isa in wanted:gmatch '[^,]+' do
  if pcall(ridge.backend.set_isa, isa) then
    if opt.probe then print(ridge.backend.probe { seed = opt.seed + 100 }) end
    survey(isa, list)
  end
end
