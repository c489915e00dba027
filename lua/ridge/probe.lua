-- SPDX-License-Identifier: MIT
--- ridge.backend.probe: a few dozen products are measured by every path, and what others take is
--- expected from them.
--
-- The time of a path is fitted as a sum of terms (core/cpu/path_cost.c has the terms, and numbers
-- of one machine, which are used where nobody probed). A product that ridge.autotune measured
-- itself takes what was found there; one that nobody measured takes the path that is expected to be
-- the fastest by what was fitted here (core/cpu/path_fitted.c). A fit is only put in force where it
-- chooses better than the numbers that are built in, over products that it was not fitted to.

local C = require 'ridge.ffi.lib'
local backend = require 'ridge.backend'
local blame = require 'ridge.blame'
local choices = require 'ridge.choices'
local columns = require 'ridge.show.columns'
local fitted = require 'ridge.fitted'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local plain = require 'ridge.plain'

local M = {}

local SPEC = {
  shapes = { 'integer', default = 60, min = 16, max = 400, doc = 'products of each kind' },
  seed = { 'integer', default = 1, min = 0, doc = 'which' },
  progress = { 'function', doc = 'called with a line of text now and then' },
}

local ROUNDS = 9         -- in which the paths run in turn
local MOST = 4          -- times as many are looked at, to find those that take all threads
local FOLDS = 4         -- a product is judged by a fit to the other three quarters
local WORK = 2 ^ 27     -- m k n at most: a millisecond or so
local FEWEST = C.RG_PATH_ROWS -- rows; what fewer take is not fitted
local LARGEST = 2900    -- of each size
local TOLERATED = 1.5   -- times as long as the fastest path, in one product
local KINDS = { { 'f32', true }, { 'f32', false }, { 'bf16', true }, { 'bf16', false } }

-- -- Products ---------------------------------------------------------------------------------

-- The i-th of an even cover of the unit interval in base b (Halton 1960); its neighbours differ.
local function halton(i, b)
  local f, x = 1, 0
  while i > 0 do
    f = f / b
    x = x + f * (i % b)
    i = math.floor(i / b)
  end
  return x
end

local function panels(x) return math.max(32, math.floor(x / 32 + 0.5) * 32) end

-- Sizes that cover the logarithms of m, k and n evenly; every other one has whole panels, as most
-- layers have.
local function sizes(n, seed)
  local list, i = {}, 17 * seed + 1
  while #list < n do
    local m, k, w = halton(i, 2), halton(i, 3), halton(i, 5)
    m, k, w = FEWEST * (LARGEST / FEWEST) ^ m, LARGEST ^ k, LARGEST ^ w
    if i % 2 == 0 then
      k, w = panels(k), panels(w)
    end
    m, k, w = math.floor(m), math.floor(k), math.floor(w)
    if m * k * w <= WORK then list[#list + 1] = { m, k, w } end
    i = i + 1
  end
  return list
end

-- A product, as a function that computes it.
local function product(size, dtype, kept)
  local ridge = require 'ridge'
  local m, k, n = size[1], size[2], size[3]
  local g = ridge.generator(1) -- not the one that everybody draws from
  local x = ridge.randn(m, k, { generator = g }):to(dtype)
  if kept then
    local layer = ridge.nn.Linear(k, n, { bias = false, seed = 1 }):to(dtype)
    return function() return ridge.inference(layer, x) end
  end
  local w = ridge.randn(k, n, { generator = g }):to(dtype)
  return function() return ridge.inference(function() return x:matmul(w) end) end
end

-- n products of one kind measured by every path, into rows, of those that take all the threads that
-- there are: small ones take one.
local function measure_kind(rows, dtype, kept, list, n, say)
  local threads, done = C.rg_threads(), 0
  say(('%s, %s, %s'):format(plain.count(threads, 'thread'), dtype,
    kept and 'weight kept packed' or 'plain factors'))
  for _, size in ipairs(list) do
    if done == n then break end
    local f = product(size, dtype, kept)
    local first = choices.why(f)[1]
    if first and first.threads == threads and size[1] * size[3] > 1 then
      local row = choices.measured(ROUNDS, f)[1]
      if row.paths[row.standard] then
        rows[#rows + 1], done = row, done + 1
      end
    end
  end
  collectgarbage()
end

-- -- Judging ----------------------------------------------------------------------------------

local function fastest(row)
  local ns = math.huge
  for _, t in pairs(row.paths) do ns = math.min(ns, t.ns) end
  return ns
end

-- How many times as long as the fastest path what is chosen takes: mean of the logarithm, most.
local function off(rows, choose)
  local sum, most = 0, 1
  for i, row in ipairs(rows) do
    local ratio = row.paths[choose(row, i)].ns / fastest(row)
    sum, most = sum + math.log(ratio), math.max(most, ratio)
  end
  return { mean = math.exp(sum / #rows), most = most }
end

-- Each row by a fit to the rows of the other folds.
local function crossed(rows)
  local costs = {}
  for fold = 0, FOLDS - 1 do
    local others = {}
    for i, row in ipairs(rows) do
      if i % FOLDS ~= fold then others[#others + 1] = row end
    end
    costs[fold] = fitted.fit(others)
  end
  return off(rows, function(row, i) return fitted.path(costs[i % FOLDS], row) end)
end

-- Rows by what numbers are fitted for.
local function by_kind(rows)
  local list, of = {}, {}
  for _, row in ipairs(rows) do
    local name = fitted.kind(row)
    if not of[name] then
      of[name] = { name = name }
      list[#list + 1] = of[name]
    end
    table.insert(of[name], row)
  end
  return list
end

local function judged(rows)
  local first, at = rows[1], 0
  for _, row in ipairs(rows) do at = math.max(at, row.at) end
  local out = { kind = rows.name, compute = first.compute, kept = first.kept,
    threads = first.threads, isa = first.isa, products = #rows, at = at,
    standard = off(rows, function(row) return row.standard end) }
  if #rows < 2 * FOLDS then
    out.reason = 'too few products'
    return out
  end
  out.fitted = crossed(rows)
  if not (out.fitted.mean < out.standard.mean
      and out.fitted.most <= math.max(out.standard.most, TOLERATED)) then
    out.reason = 'no better than what is built in'
    return out
  end
  out.taken, out.costs = true, fitted.fit(rows)
  return out
end

-- -- What comes out ---------------------------------------------------------------------------

local Probed = {}
Probed.__index = Probed

local function times(x) return x and ('%.2f (%.1f)'):format(x.mean, x.most) or '' end

function Probed:__tostring()
  local lines, taken = {}, 0
  for _, r in ipairs(self) do
    lines[#lines + 1] = { r.compute, r.kept and 'kept packed' or 'plain', r.threads, r.products,
      times(r.standard), times(r.fitted), r.taken and 'taken' or r.reason }
    taken = taken + (r.taken and 1 or 0)
  end
  if #lines == 0 then return "no product whose path 'auto' decides" end
  return ('%s\ntime over that of the fastest path: mean (most); fitted: over products that the fit '
    .. 'had not seen\n%s, %d fitted and taken'):format(columns.text({ 'type', 'weight', 'threads',
    'products', 'built in', 'fitted', '' }, lines, { right = { [5] = true, [6] = true } }),
    #self == 1 and '1 kind of products' or #self .. ' kinds of products', taken)
end
Probed.__tostring = guard.text(Probed.__tostring)

--- Measure a few dozen products by every path (ridge's own kernels, oneDNN, OpenBLAS) with the
--- instruction set that is in force, by one thread and by as many as are, and let 'auto' take what
--- is expected to be the fastest from them, in this process and those it measures in, where a
--- product was not measured itself (ridge.autotune). Takes some seconds. With `deterministic` on
--- nothing is measured.
---@param opts table|nil {shapes = 60 (products of each kind: type, whether the weight is kept
---  packed, threads), seed = 1 (which), progress = function of a line of text}
---@return table list by kind {compute =, kept =, threads =, isa =, products = (how many),
---  standard =, fitted = {mean =, most =} (time of the path that is chosen over that of the
---  fastest, by the numbers built in, and by a fit to other products), taken = true, or reason =};
---  tostring is a table
-- >> return #ridge.backend.probe{ shapes = 16 }
function M.probe(opts)
  opts = options.check(SPEC, opts, 'backend.probe')
  if not choices.decides_products() then
    blame.raise('backend.probe: there is nothing to choose: `deterministic` is on, or a path is '
      .. 'forced', 'EARG', 'backend.probe')
  end
  local rows, list, threads = {}, sizes(MOST * opts.shapes, opts.seed), C.rg_threads()
  local ok, err = pcall(function()
    for _, n in ipairs(threads > 1 and { 1, threads } or { 1 }) do
      backend.set_threads(n)
      for _, kind in ipairs(KINDS) do
        measure_kind(rows, kind[1], kind[2], list, opts.shapes, opts.progress or function() end)
      end
    end
  end)
  backend.set_threads(threads)
  if not ok then error(err, 0) end
  local out = setmetatable({}, Probed)
  for i, group in ipairs(by_kind(rows)) do
    out[i] = judged(group)
    fitted.note(out[i])
    if out[i].taken then fitted.put(out[i]) end
  end
  return out
end

return M
