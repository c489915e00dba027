-- SPDX-License-Identifier: MIT
-- Where sparse products break even: a map of sparsity x batch, beside the dense product in f32.
--
--     taskset -c 0 ./ridge --threads 1 scripts/peers/sparse_map.lua ROWS.tsv [N_IN N_OUT]
--
-- Single weights that are 0, n of m, and blocks of 16 outputs and one input, as plans on a thread,
-- in processor time of paired rounds: the median ratio of times and its quartiles. n:m is kept by
-- its own kernel ('n:m'), and as single weights beside it ('n:m as rows'). Rows are written as they
-- are known; what is in the file already is not measured again.

local ffi = require 'ffi'
local ridge = require 'ridge'

ffi.cdef 'typedef struct { long s, ns; } map_time; int clock_gettime(int, map_time *);'
local CPU_TIME, ROUNDS, LEAST_US = 3, 11, 2000 -- of the thread; of a round of the dense product
local time = ffi.new 'map_time'

local path, n_in, n_out = arg[1], tonumber(arg[2] or 2048), tonumber(arg[3] or 1024)
if not path then error 'usage: ./ridge scripts/peers/sparse_map.lua ROWS.tsv [N_IN N_OUT]' end

local BATCHES = { 1, 4, 16, 64, 256 }
local SHARES = { 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98 }
local KINDS = { 'rows', 'blocks', 'n:m', 'n:m as rows' }
local function is_some_of(kind) return kind:find '^n:m' ~= nil end
local OF_M = { [0.5] = { 2, 4 }, [0.75] = { 1, 4 }, [0.875] = { 1, 8 }, [0.9375] = { 1, 16 } }
local N_OF_M = { 0.5, 0.75, 0.875, 0.9375 }

local function now()
  ffi.C.clock_gettime(CPU_TIME, time)
  return tonumber(time.s) * 1e6 + tonumber(time.ns) / 1e3
end

local function middle(list, share)
  table.sort(list)
  return list[math.max(1, math.floor(#list * share + 0.5))]
end

-- -- Weights --------------------------------------------------------------------------------------

local function weight_of(kind, share)
  local w = ridge.randn(n_out, n_in)
  if kind == 'blocks' then
    local there = ridge.rand(n_out / 16, 1, n_in):gt(share):to 'f32'
    w = w * there:expand(n_out / 16, 16, n_in):reshape(n_out, n_in)
  elseif kind == 'rows' then
    w = w * ridge.rand(n_out, n_in):gt(share):to 'f32'
  else
    local layer = ridge.nn.Linear(n_in, n_out)
    layer.weight = w
    w = ridge.prune.magnitude(layer, { pattern = ('%d:%d'):format(unpack(OF_M[share])) }).weight
      :detach()
  end
  if kind == 'n:m' then
    return ridge.sparse(w, { pattern = ('%d:%d'):format(unpack(OF_M[share])) })
  end
  return ridge.sparse(w, { block = kind == 'blocks' and 16 or 1 })
end

local function plan_of(f)
  f()
  local plan = ridge.capture(f)
  plan()
  return plan
end

local function measure(kind, share, batch)
  ridge.seed(1)
  local net, x, w = ridge.nn.Linear(n_in, n_out):eval(), ridge.randn(batch, n_in),
    weight_of(kind, share)
  local dense = plan_of(function() return ridge.inference(net, x) end)
  local sparse = plan_of(function() return ridge.sparse_linear(x, w, { bias = net.bias }) end)
  local begun = now()
  dense()
  local times, ratios, took = math.max(1, math.floor(LEAST_US / math.max(now() - begun, 0.1))), {},
    {}
  for round = 1, ROUNDS do
    local from = now()
    for _ = 1, times do dense() end
    local between = now()
    for _ = 1, times do sparse() end
    took[round], ratios[round] = (between - from) / times, (between - from) / (now() - between)
  end
  dense:release()
  sparse:release()
  return { middle(took, 0.5), middle(ratios, 0.5), middle(ratios, 0.25), middle(ratios, 0.75) }
end

-- -- Rows -----------------------------------------------------------------------------------------

local known = {}
local function key(...) return table.concat({ ... }, '\t') end

local file = io.open(path)
if file then
  for line in file:lines() do
    local at, numbers = line:match '^(%d+\t%d+\t[%a: ]+\t[%d.]+\t%d+)\t(.+)$'
    local list = {}
    for word in (numbers or ''):gmatch '[^\t]+' do list[#list + 1] = tonumber(word) end
    if at and #list == 4 then known[at] = list end
  end
  file:close()
end

local out = assert(io.open(path, 'a'))
if out:seek 'end' == 0 then
  out:write 'n_in\tn_out\tkept as\tsparsity\tbatch\tdense us\tratio\tlow\thigh\n'
end
for _, kind in ipairs(KINDS) do
  for _, share in ipairs(is_some_of(kind) and N_OF_M or SHARES) do
    for _, batch in ipairs(BATCHES) do
      local at = key(n_in, n_out, kind, share, batch)
      if not known[at] then
        known[at] = measure(kind, share, batch)
        out:write(at, ('\t%.2f\t%.3f\t%.3f\t%.3f\n'):format(unpack(known[at])))
        out:flush()
      end
    end
  end
end
out:close()

-- -- Map ------------------------------------------------------------------------------------------

-- The sparsity from which on it is faster, between two that were measured.
local function even(kind, shares, batch)
  local before
  for i = #shares, 1, -1 do
    local ratio = known[key(n_in, n_out, kind, shares[i], batch)][2]
    if ratio < 1 then
      if not before then return 'never' end
      local part = (1 - ratio) / (before - ratio)
      return ('%.0f %%'):format(100 * (shares[i] + part * (shares[i + 1] - shares[i])))
    end
    before = ratio
  end
  return ('< %.0f %%'):format(100 * shares[1])
end

print(('%d -> %d, one thread: times as fast as dense in f32 (median of %d rounds), over the batch')
  :format(n_in, n_out, ROUNDS))
for _, kind in ipairs(KINDS) do
  local shares, cells = is_some_of(kind) and N_OF_M or SHARES, { ('%-14s'):format(kind) }
  for _, batch in ipairs(BATCHES) do cells[#cells + 1] = ('%7d'):format(batch) end
  print(table.concat(cells))
  for _, share in ipairs(shares) do
    local name = OF_M[share] and is_some_of(kind) and ('%d:%d'):format(unpack(OF_M[share]))
      or ('%g %%'):format(100 * share)
    cells = { ('  %-12s'):format(name) }
    for _, batch in ipairs(BATCHES) do
      cells[#cells + 1] = ('%7.2f'):format(known[key(n_in, n_out, kind, share, batch)][2])
    end
    print(table.concat(cells))
  end
  cells = { ('  %-12s'):format 'breaks even' }
  for _, batch in ipairs(BATCHES) do
    cells[#cells + 1] = ('%7s'):format(even(kind, shares, batch):gsub(' ', ''), nil)
  end
  print(table.concat(cells))
end
