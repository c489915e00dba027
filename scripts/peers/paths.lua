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
-- named there, none below 0, by least squares of the relative error.

local ridge = require 'ridge'

local opt = ridge.args {
  { 'shapes', 200, 'how many are drawn', min = 1, integer = true },
  { 'threads', 1, 'compute threads', min = 1, integer = true },
  { 'isa', '', 'instruction sets, by comma; all that there are when left out' },
  { 'most', 1.3, 'times of the fastest path that are told', min = 1 },
  { 'seed', 1, 'which shapes', min = 0, integer = true },
  { 'fit', false, 'print the table of core/cpu/path_cost.c' },
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

local PATHS = { 'onednn', 'openblas', 'own' }
local TERMS = 9
local seen = {} -- by 'f32 kept': rows

-- The terms of core/cpu/path_cost.c.
local function terms(row, path)
  local m, k, n = row.m, row.k, row.n
  if path ~= 'own' then
    return { 1, m * n * k, m * n, m * k, k * n, m, n, m * k * math.ceil(n / 16) * 16, 0 }
  end
  local part = n % 32 > 0 and 1 or 0
  n = math.ceil(n / 32) * 32
  if row.compute == 'bf16' and row.isa == 'avx512_bf16' then k = math.ceil(k / 32) * 32 end
  return { 1, m * n * k, m * n, m * k, k * n, m, n, k * part, m * part }
end

-- x >= 0 with the least sum of (A x / t - 1)^2, coordinate by coordinate (Lawson & Hanson's problem
-- is small here).
local function fitted(rows, path)
  local g, h, x = {}, {}, {}
  for i = 1, TERMS do
    g[i], h[i], x[i] = {}, 0, 0
    for j = 1, TERMS do g[i][j] = 0 end
  end
  for _, row in ipairs(rows) do
    local a, ns = terms(row, path), row.paths[path].ns
    for i = 1, TERMS do
      h[i] = h[i] + a[i] / ns
      for j = 1, TERMS do g[i][j] = g[i][j] + a[i] / ns * a[j] / ns end
    end
  end
  for _ = 1, 20000 do
    for i = 1, TERMS do
      local rest = h[i]
      for j = 1, TERMS do if j ~= i then rest = rest - g[i][j] * x[j] end end
      x[i] = g[i][i] > 0 and math.max(0, rest / g[i][i]) or 0
    end
  end
  return x
end

local function print_fit()
  for _, kind in ipairs { 'f32 kept', 'f32 plain', 'bf16 kept', 'bf16 plain' } do
    for _, path in ipairs(PATHS) do
      local rows = seen[kind] or {}
      if rows[1] and rows[1].paths[path] then
        local x = fitted(rows, path)
        for i = 1, TERMS do x[i] = ('%.3g'):format(x[i]) end
        local name = kind:upper():gsub(' ', '][')
        print(('  [%s][RG_GEMM_%s] = { %s },'):format(name, path:upper(), table.concat(x, ', ')))
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
  local row = ridge.autotune(f)[1]
  if not row then return nil end
  local kind = dtype .. (kept and ' kept' or ' plain')
  seen[kind] = seen[kind] or {}
  if kept or m > 1 or n > 1 then table.insert(seen[kind], row) end -- dot products: path_row.c
  local best = fastest(row)
  local off = row.paths[row.standard].ns / row.paths[best].ns
  if off > opt.most then
    print(('%-12s %5d x %4d x %4d %-4s %-5s %s %.2f times as long as %s'):format(isa, m, k, n,
      dtype, kept and 'kept' or 'plain', row.standard, off, best))
  end
  return off, row
end

local function survey(isa, list)
  local n, over, worst, sum, tuned = 0, 0, 0, 0, 0
  for i, s in ipairs(list) do
    for _, kept in ipairs { true, false } do
      local off, row = look(isa, s, i % 2 == 0 and 'bf16' or 'f32', kept)
      if off then
        n, sum, worst = n + 1, sum + math.log(off), math.max(worst, off)
        if off > opt.most then over = over + 1 end
        if row.path ~= row.standard then tuned = tuned + 1 end
      end
    end
    collectgarbage()
    if i % 20 == 0 then io.stderr:write(('%s: %d of %d\n'):format(isa, i, #list)) end
  end
  print(('%-12s %d products, the standard path %.2f times as long as the fastest in the mean, %.2f '
    .. 'at most, over %g in %d; tuning takes another in %d'):format(isa, n, math.exp(sum / n),
    worst, opt.most, over, tuned))
  if opt.fit then print_fit() end
  seen = {}
end

ridge.set_num_threads(opt.threads)
local wanted = opt.isa ~= '' and opt.isa or 'base,avx2,avx512,avx512_bf16,amx'
local list = shapes()
for isa in wanted:gmatch '[^,]+' do
  if pcall(ridge.backend.set_isa, isa) then survey(isa, list) end
end
