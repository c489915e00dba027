-- SPDX-License-Identifier: MIT
--- What products are expected to take by each path, fitted to some that were measured: the fit, the
--- numbers that are in force (core/cpu/path_fitted.c), and both as text.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local dtype = require 'ridge.tensor.dtype'

local M = {}

local TERMS = C.RG_PATH_TERMS
local PATHS = { 'onednn', 'openblas', 'own' } -- in the order of RG_GEMM_...
local CODE = {}
for code, name in ipairs(PATHS) do CODE[name] = code end
local TYPE = { f32 = C.RG_F32, bf16 = C.RG_BF16 }
local ISA = {}
for level = 0, C.RG_ISA_COUNT - 1 do ISA[ffi.string(C.rg_isa_name(level))] = level end

-- -- Fitting ----------------------------------------------------------------------------------

local function terms(row, path)
  local out = ffi.new('double[?]', TERMS)
  C.rg_path_terms(row.m, row.n, row.k, TYPE[row.compute], CODE[path], out)
  return out
end

-- Three digits, so that what is kept as text and what is in force are the same.
local function rounded(x) return tonumber(('%.3g'):format(x)) end

local SWEEPS = 5000
local PASSES = 3      -- of weights
local PLAIN = 0.2     -- relative errors up to here count in full, those above less (Huber 1964)

-- x >= 0 with the least sum of w (A x / t - 1)^2, coordinate by coordinate: Lawson and Hanson's
-- problem (Solving Least Squares Problems, 1974), which is small here.  a: rows of A / t.
local function least_squares(a, w)
  local g, h, x = {}, {}, {}
  for i = 1, TERMS do
    g[i], h[i], x[i] = {}, 0, 0
    for j = 1, TERMS do g[i][j] = 0 end
  end
  for r, row in ipairs(a) do
    for i = 1, TERMS do
      h[i] = h[i] + w[r] * row[i]
      for j = 1, TERMS do g[i][j] = g[i][j] + w[r] * row[i] * row[j] end
    end
  end
  for _ = 1, SWEEPS do
    for i = 1, TERMS do
      local rest = h[i]
      for j = 1, TERMS do if j ~= i then rest = rest - g[i][j] * x[j] end end
      x[i] = g[i][i] > 0 and math.max(0, rest / g[i][i]) or 0
    end
  end
  return x
end

-- The relative error of each row.
local function errors(a, x)
  local out = {}
  for r, row in ipairs(a) do
    local sum = -1
    for i = 1, TERMS do sum = sum + row[i] * x[i] end
    out[r] = math.abs(sum)
  end
  return out
end

-- Numbers of one path.  Somebody else's work makes a product look slow now and then: such rows
-- count for less, pass by pass.
local function fit_path(rows, path)
  local a, w, x = {}, {}, nil
  for r, row in ipairs(rows) do
    local t, ns = terms(row, path), row.paths[path].ns
    a[r], w[r] = {}, 1
    for i = 1, TERMS do a[r][i] = t[i - 1] / ns end
  end
  for _ = 1, PASSES do
    x = least_squares(a, w)
    for r, e in ipairs(errors(a, x)) do w[r] = e > PLAIN and PLAIN / e or 1 end
  end
  for i = 1, TERMS do x[i] = rounded(x[i]) end
  return x
end

--- Numbers for the terms of each path that every one of the products was measured by.
---@param rows table products of one kind, as ridge.backend.choices gives them
---@return table costs path to a list of nanoseconds a term
function M.fit(rows)
  local out = {}
  for _, path in ipairs(PATHS) do
    local all = #rows > 0
    for _, row in ipairs(rows) do all = all and row.paths[path] ~= nil end
    out[path] = all and fit_path(rows, path) or nil
  end
  return out
end

-- compute, kept, threads, isa: of which products; costs: as `fit` gives them
local function struct_of(r)
  local c = ffi.new('rg_path_costs', { compute = TYPE[r.compute], kept = r.kept and 1 or 0,
    threads = r.threads or 0, isa = ISA[r.isa] or 0 })
  for path, list in pairs(r.costs) do
    for i = 1, TERMS do c.ns[CODE[path]][i - 1] = list[i] end
  end
  return c
end

--- The path that such numbers choose for a product, by the core's own rule.
---@param costs table as `fit` gives it
---@param row table m =, k =, n =, compute =, standard =
---@return string path
function M.path(costs, row)
  local c = struct_of { compute = row.compute, costs = costs }
  return PATHS[C.rg_path_costs_choose(c, row.m, row.n, row.k, CODE[row.standard])]
end

-- -- In force ---------------------------------------------------------------------------------

local known = {}  -- by kind: when it was measured (microseconds since 1970), of how many products
local probed = {} -- in order: what was measured in this process, whether it is taken or not

--- What numbers are for, as text: 'f32 k t1 avx2'.
---@param r table compute =, kept =, threads =, isa =
---@return string
function M.kind(r)
  return ('%s %st%d %s'):format(r.compute, r.kept and 'k ' or '', r.threads, r.isa)
end

--- Put numbers in force.
---@param r table compute =, kept =, threads =, isa =, costs = as `fit` gives them, at =, products =
function M.put(r)
  call.check(C.rg_path_costs_put(struct_of(r)), 'backend.probe')
  known[M.kind(r)] = { at = r.at or 0, products = r.products or 0 }
end

--- Remember what was measured in this process, for who keeps it.
---@param r table compute =, kept =, threads =, isa =, at =, products =, costs = (nil: not taken)
function M.note(r) probed[#probed + 1] = r end

--- Nothing was measured in this process: what is in force is forgotten with all choices
--- (rg_choices_forget).
function M.forget() probed = {} end

--- What was measured in this process, the first before the others.
---@return table list
function M.probed() return probed end

--- What is in force.
---@return table list {compute =, kept =, threads =, isa =, costs =, at =, products =}
function M.all()
  local list, c = {}, ffi.new 'rg_path_costs'
  for i = 0, tonumber(C.rg_path_costs_count()) - 1 do
    call.check(C.rg_path_costs_at(i, c))
    local r = { compute = dtype.name(c.compute), kept = c.kept == 1, threads = c.threads,
      isa = ffi.string(C.rg_isa_name(c.isa)), costs = {} }
    for code, path in ipairs(PATHS) do
      local x, any = {}, false
      for j = 1, TERMS do
        x[j] = c.ns[code][j - 1]
        any = any or x[j] > 0
      end
      r.costs[path] = any and x or nil
    end
    local of = known[M.kind(r)] or {}
    r.at, r.products = of.at or 0, of.products or 0
    list[#list + 1] = r
  end
  return list
end

-- -- As text ----------------------------------------------------------------------------------

--- Numbers as text: 'costs f32 k t1 avx2: onednn 487 0.0198 ..., own 8.76 ...'.
---@param r table as `all` gives it
---@return string
function M.line(r)
  local parts = {}
  for _, path in ipairs(PATHS) do
    if r.costs[path] then
      local numbers = {}
      for i = 1, TERMS do numbers[i] = ('%.3g'):format(r.costs[path][i]) end
      parts[#parts + 1] = path .. ' ' .. table.concat(numbers, ' ')
    end
  end
  return ('costs %s: %s'):format(M.kind(r), table.concat(parts, ', '))
end

local function is_number(x) return type(x) == 'number' and x >= 0 and x < math.huge end

local MOST_THREADS = 1024

--- What a kind is of; nil where it is none that this ridge knows.
---@param text string as `kind` gives it
---@return table|nil r compute =, kept =, threads =, isa =
function M.parse_kind(text)
  local compute, flag, threads, isa = text:match '^(%w+) (k? ?)t(%d+) ([%w_]+)$'
  threads = tonumber(threads)
  if not (TYPE[compute] and ISA[isa] and (flag == '' or flag == 'k ') and threads
      and threads >= 1 and threads <= MOST_THREADS) then
    return nil
  end
  return { compute = compute, kept = flag == 'k ', threads = threads, isa = isa }
end

--- Numbers that somebody wrote down; nil where they are none.
---@param costs any
---@return table|nil costs those of paths that this ridge has
function M.clean(costs)
  local out, any = {}, false
  for _, path in ipairs(PATHS) do
    local list = type(costs) == 'table' and costs[path]
    if type(list) == 'table' and #list == TERMS then
      local sum = 0
      for i = 1, TERMS do
        if not is_number(list[i]) then return nil end
        sum = sum + list[i]
      end
      if sum > 0 then out[path], any = list, true end
    elseif list then
      return nil
    end
  end
  return any and out or nil
end

--- What `line` gave; nil where a text is none.
---@param text string
---@return table|nil r
function M.parse(text)
  local kind, rest = text:match '^costs (.-): (.+)$'
  local r = kind and M.parse_kind(kind)
  if not r then return nil end
  local costs = {}
  for part in (rest .. ', '):gmatch '(.-), ' do
    local path, numbers = part:match '^(%l+) (.+)$'
    if not CODE[path or ''] or costs[path] then return nil end
    costs[path] = {}
    for number in numbers:gmatch '%S+' do table.insert(costs[path], tonumber(number) or -1) end
  end
  r.costs = M.clean(costs)
  return r.costs and r or nil
end

return M
