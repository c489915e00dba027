-- SPDX-License-Identifier: MIT
--
-- Rows like those of the landscape sweep, made from measured medians: 1024 -> 512, batch 128, two
-- threads. The noise is a fixed sequence, so that every run draws the same figures.

local M = {}

M.TERMS = { 2, 4, 6, 8, 12, 16 }
M.RANKS = { 16, 32, 48, 64, 96, 128 }

local N_IN, N_OUT, BATCH = 1024, 512, 128

-- Microseconds of two products through k, and of the dense product.
local TWO_PRODUCTS = {
  f32 = { { 64, 90 }, { 128, 174 }, { 256, 369 }, { 512, 746 }, { 1024, 1540 }, { 2048, 3046 },
    { 4096, 8080 } },
  bf16 = { { 64, 21 }, { 128, 36 }, { 256, 60 }, { 512, 125 }, { 1024, 280 }, { 2048, 640 },
    { 4096, 1458 } },
}
local DENSE = { f32 = 434, bf16 = 70 }
local SIZE = { f32 = 4, bf16 = 2 }

local function between(points, k)
  for i = 2, #points do
    local a, b = points[i - 1], points[i]
    if k <= b[1] or i == #points then
      local t = (math.log(k) - math.log(a[1])) / (math.log(b[1]) - math.log(a[1]))
      return math.exp(math.log(a[2]) + t * (math.log(b[2]) - math.log(a[2])))
    end
  end
end

local function noise(seed)
  local v = math.sin(seed * 12.9898 + 4.1) * 43758.5453
  return v - math.floor(v)
end

local function measured(row, us, seed)
  local fwd = us * 1e3 * (0.97 + 0.06 * noise(seed))
  local half = 0.006 + 0.03 * noise(seed + 0.5) ^ 3
  row.state, row.fwd, row.fwd_n = 'ok', fwd, 50
  row.fwd_lo, row.fwd_hi = fwd * (1 - half), fwd * (1 + 1.3 * half)
  row.fwd_p95 = fwd * (1.03 + 0.1 * noise(seed + 0.25))
  row.avg_time_ms = fwd * 1.01 / 1e6
  local g = noise(seed + 0.75)
  row.grade = g < 0.7 and 'A' or g < 0.9 and 'B' or g < 0.96 and 'C' or 'D'
  return row
end

--- Rows of a sweep.
---@param opt table|nil dtypes, terms, ranks
---@return table rows
function M.rows(opt)
  opt = opt or {}
  local rows, seed = {}, 0
  for _, dtype in ipairs(opt.dtypes or { 'f32', 'bf16' }) do
    local size = SIZE[dtype]
    local function base(layer)
      return { layer = layer, dtype = dtype, in_features = N_IN, out_features = N_OUT,
        batch = BATCH }
    end
    local dense = base('dense')
    dense.param_count, dense.stored_count = N_IN * N_OUT + N_OUT, N_IN * N_OUT + N_OUT
    dense.stored_bytes, dense.rel_error = dense.stored_count * size, 0
    dense.peak_memory_mb = (2 * dense.stored_bytes + BATCH * (N_IN + N_OUT) * size) / 2 ^ 20
    measured(dense, DENSE[dtype], 77)
    dense.gflops = 2 * BATCH * N_IN * N_OUT / dense.fwd
    rows[#rows + 1] = dense
    for _, terms in ipairs(opt.terms or M.TERMS) do
      for _, rank in ipairs(opt.ranks or M.RANKS) do
        local k = 2 * terms * rank
        local us = between(TWO_PRODUCTS[dtype], k)
        for _, layer in ipairs { 'sketched', 'lowrank' } do
          seed = seed + 1
          local row = base(layer)
          row.num_terms, row.low_rank = terms, rank
          row.stored_count = k * (N_IN + N_OUT) + N_OUT
          row.param_count = (layer == 'sketched' and k / 2 or k) * (N_IN + N_OUT) + N_OUT
          row.stored_bytes = row.stored_count * size
          row.peak_memory_mb = (2 * row.stored_bytes + BATCH * (N_IN + N_OUT + k) * size) / 2 ^ 20
          if layer == 'lowrank' and k > math.min(N_IN, N_OUT) then
            row.state, row.reason = 'infeasible', 'equal bytes need more than full rank'
          else
            measured(row, us * (layer == 'lowrank' and 0.96 or 1), seed)
            row.gflops = 2 * BATCH * k * (N_IN + N_OUT) / row.fwd
            row.rel_error = layer == 'sketched'
              and math.sqrt(((N_OUT - 1) / rank + (N_IN - 1) / rank) / (4 * terms))
              or math.sqrt(math.max(0, 1 - (k / 512) ^ 0.8))
          end
          rows[#rows + 1] = row
        end
      end
    end
  end
  return rows
end

--- Make the measured row of one point a failed one.
---@param rows table
---@param where table columns and values
---@param state string
---@param reason string|nil
function M.fail(rows, where, state, reason)
  for _, row in ipairs(rows) do
    local hit = true
    for name, value in pairs(where) do hit = hit and row[name] == value end
    if hit then
      row.state, row.reason = state, reason
      row.fwd, row.fwd_lo, row.fwd_hi, row.gflops = nil, nil, nil, nil
    end
  end
end

--- What a sweep knows about itself, as figures carry it.
M.PROVENANCE = {
  device = 'Intel Xeon (AVX-512, AMX), 2 threads', commit = '4f2a91c', date = '2025-06-14',
  sweep = '0b9d3a52-6f1e-4c67-9d7f-1f0a8e0c2a11', database = '7c1a5e0e-2c52-4b9f-8a43-d6a0f2f0b7e4',
  recipe = 'sha256:9f86d081884c7d65', query = 'landscape', version = '0.1.0',
}

return M
