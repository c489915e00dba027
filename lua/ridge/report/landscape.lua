-- SPDX-License-Identifier: MIT
--- What a landscape sweep found, in words and columns: rows ready to draw, a table, a verdict.

local roof = require 'ridge.measure.roof'

local M = {}

local KINDS = { 'dense', 'lowrank', 'sketched' }

--- Rows of the sweep with what the figures and the table need beside the measured numbers:
-- in_features, out_features, batch, avg_time_ms, peak_memory_mb, throughput, gflops, gbps, k.
---@param rows table of sw:results()
---@param shape table n_in, n_out, batch
---@return table rows the same, filled in
function M.rows(rows, shape)
  for _, row in ipairs(rows) do
    row.in_features, row.out_features, row.batch = shape.n_in, shape.n_out, shape.batch
    row.k = row.layer == 'sketched' and 2 * row.num_terms * row.low_rank or row.rank
    if row.fwd then
      row.avg_time_ms = row.fwd_mean / 1e6
      row.throughput = shape.batch / (row.fwd / 1e9)
      row.gflops, row.gbps = row.fwd_gflops, row.fwd_gbps
    end
    if row.peak_bytes then row.peak_memory_mb = row.peak_bytes / 2 ^ 20 end
  end
  return rows
end

-- What is said in place of any claim about rows of a simulated device.
local SIMULATED = 'measured on a simulated device: these times say nothing of any GPU'

--- Was any of these rows measured on a simulated device?
---@param rows table of M.rows
---@return boolean
function M.is_simulated(rows)
  for _, row in ipairs(rows) do
    if (row.flags or ''):find('SIMULATED', 1, true) then return true end
  end
  return false
end

-- -- Comparing ----------------------------------------------------------------------------------

local function measured(row)
  return row.state == 'ok' and row.fwd ~= nil and row.grade ~= 'D'
end

local function dense_of(rows, dtype)
  for _, row in ipairs(rows) do
    if row.layer == 'dense' and row.dtype == dtype and measured(row) then return row end
  end
  return nil
end

--- 'faster', 'slower' or 'open' by the intervals of two rows; 'open' where they overlap.
---@param row table
---@param other table
---@return string
function M.against(row, other)
  if row.fwd_hi < other.fwd_lo then return 'faster' end
  if row.fwd_lo > other.fwd_hi then return 'slower' end
  return 'open'
end

local function types_of(rows)
  local seen, list = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.dtype] then
      seen[row.dtype] = true
      list[#list + 1] = row.dtype
    end
  end
  table.sort(list, function(a, b) return a > b end)
  return list
end

--- One row for each sketched point: of the forms of the signs the one with the lower median;
-- the other rows as they are.
---@param rows table of M.rows
---@return table rows
function M.faster_forms(rows)
  local best, out = {}, {}
  for _, row in ipairs(rows) do
    if row.layer == 'sketched' then
      local key = ('%s %d %d'):format(row.dtype, row.num_terms, row.low_rank)
      local other = best[key]
      if not other or (row.fwd and (not other.fwd or row.fwd < other.fwd)) then best[key] = row end
    end
  end
  for _, row in ipairs(rows) do
    if row.layer ~= 'sketched'
      or best[('%s %d %d'):format(row.dtype, row.num_terms, row.low_rank)] == row then
      out[#out + 1] = row
    end
  end
  return out
end

local OTHER_FORMS = {
  { form = 'bits', said = 'kept as bits take about half the bytes' },
  { form = 'seed', said = 'made from a seed as they are used take half the bytes' },
}

-- How often signs of another form are faster than stored ones, where both were measured.
local function form_sentence(rows, other_form)
  local stored, n, faster = {}, 0, 0
  local function key(row) return ('%s %d %d'):format(row.dtype, row.num_terms, row.low_rank) end
  for _, row in ipairs(rows) do
    if row.form == 'stored' and measured(row) then stored[key(row)] = row end
  end
  for _, row in ipairs(rows) do
    local other = row.form == other_form.form and measured(row) and stored[key(row)]
    if other then
      n = n + 1
      if M.against(row, other) == 'faster' then faster = faster + 1 end
    end
  end
  if n == 0 then return nil end
  return ('fixed signs %s and are faster than stored ones at %d of %d points.'):format(
    other_form.said, faster, n)
end

-- -- Roofs ------------------------------------------------------------------------------------

--- The share of the tighter measured roof that a row reaches, and which roof that is.
---@param row table fwd (ns), fwd_flops, fwd_sign_flops, fwd_bytes, dtype
---@param machine table|nil ceilings (a list of { name =, value = }), l1d, l2, l3 in bytes, threads
---@return number|nil share 1 is the roof
---@return string|nil name compute, L1, L2, LLC or DRAM
function M.roof(row, machine)
  if not machine or not machine.ceilings then return nil end
  local least, name = roof.least({ flops = row.fwd_flops, sign_flops = row.fwd_sign_flops,
    bytes = row.fwd_bytes, dtype = row.dtype }, roof.by_name(machine.ceilings), machine)
  if least then return least / row.fwd, name end
end

-- -- The table
-- -------------------------------------------------------------------------------------

-- Microseconds with four digits at least.
local function us(ns) return (ns < 1e6 and '%.4g' or '%.0f'):format(ns / 1e3) end

local COLUMNS = {
  { 'layer', 8, function(r) return r.layer end, true },
  { 'dtype', 5, function(r) return r.dtype end, true },
  { 'num_terms', 9, function(r) return r.num_terms or '' end },
  { 'low_rank', 8, function(r) return r.low_rank or r.rank or '' end },
  { 'signs', 6, function(r) return r.form or '' end, true },
  { 'param_count', 11, function(r) return ('%d'):format(r.param_count) end },
  { 'stored_kb', 9, function(r) return ('%.0f'):format(r.stored_bytes / 1024) end },
  { 'peak_memory_mb', 14, function(r) return ('%.2f'):format(r.peak_memory_mb) end },
  { 'avg_time_ms', 11, function(r) return ('%.4f'):format(r.avg_time_ms) end },
  { 'median us', 9, function(r) return us(r.fwd) end },
  { '95 % interval', 16, function(r)
    return us(r.fwd_lo) .. ' .. ' .. us(r.fwd_hi)
  end },
  { 'p95', 7, function(r) return us(r.fwd_p95) end },
  { 'p99', 7, function(r) return us(r.fwd_p99) end },
  { 'rows/s', 8, function(r) return ('%.3g'):format(r.throughput) end },
  { 'GFLOP/s', 7, function(r) return ('%.0f'):format(r.gflops) end },
  { 'GB/s', 6, function(r) return ('%.1f'):format(r.gbps) end },
  { '% roof', 6, function(r, c)
    local share = M.roof(r, c)
    return share and ('%.0f'):format(100 * share) or '-'
  end },
  { 'roof', 7, function(r, c) return (select(2, M.roof(r, c))) or '-' end, true },
  { 'error', 6, function(r) return ('%.3f'):format(r.rel_error) end },
  { 'grade', 5, function(r) return r.grade end, true },
  { 'vs dense', 14, function(r, _, dense)
    if r.layer == 'dense' or not dense then return '' end
    local word = M.against(r, dense)
    return ('%.2fx %s'):format(dense.fwd / r.fwd, word)
  end, true },
}

--- Every measured row as one line of a table, fastest first within type and kind; then a line for
-- each cause of what is missing.
---@param rows table of M.rows
---@param c table|nil ceilings and caches, as for M.roof
---@return string
function M.table(rows, c)
  local lines, head = {}, {}
  for i, column in ipairs(COLUMNS) do
    head[i] = ((column[4] and '%-' or '%') .. column[2] .. 's'):format(column[1])
  end
  if M.is_simulated(rows) then lines[1] = SIMULATED .. '.' end
  lines[#lines + 1] = table.concat(head, ' ')
  for _, dtype in ipairs(types_of(rows)) do
    local dense = dense_of(rows, dtype)
    for _, kind in ipairs(KINDS) do
      local some = {}
      for _, row in ipairs(rows) do
        if row.layer == kind and row.dtype == dtype and row.fwd then some[#some + 1] = row end
      end
      table.sort(some, function(a, b) return a.fwd < b.fwd end)
      for _, row in ipairs(some) do
        local cells = {}
        for i, column in ipairs(COLUMNS) do
          local text = tostring(column[3](row, c, dense))
          cells[i] = ((column[4] and '%-' or '%') .. column[2] .. 's'):format(text)
        end
        lines[#lines + 1] = (table.concat(cells, ' '):gsub('%s+$', ''))
      end
    end
  end
  local missing, causes = {}, {}
  for _, row in ipairs(rows) do
    if not row.fwd then
      -- reasons that differ in numbers only are one: the first speaks for all
      local reason = row.reason and row.reason:match('[^\n]*') or ''
      local cause = row.state .. reason:gsub('%d+', '')
      if not missing[cause] then
        missing[cause] = { n = 0, text = row.state .. (reason ~= '' and ': ' .. reason or '') }
        causes[#causes + 1] = cause
      end
      missing[cause].n = missing[cause].n + 1
    end
  end
  table.sort(causes)
  for _, cause in ipairs(causes) do
    local m = missing[cause]
    lines[#lines + 1] = ('%d not measured, %s%s'):format(m.n, m.text,
      m.n > 1 and ', and so on' or '')
  end
  return table.concat(lines, '\n')
end

-- -- The verdict
-- --------------------------------------------------------------------------------------

--- How many rows of a kind are faster than another row, and what the fast ones have in common.
local function count_faster(rows, kind, dtype, than)
  local n, faster, open, highest = 0, 0, 0, 0
  for _, row in ipairs(rows) do
    if row.layer == kind and row.dtype == dtype and measured(row) then
      n = n + 1
      local word = M.against(row, than)
      if word == 'faster' then
        faster = faster + 1
        highest = math.max(highest, row.k)
      elseif word == 'open' then
        open = open + 1
      end
    end
  end
  return n, faster, open, highest
end

local function rivals(rows, dtype)
  local by_k = {}
  for _, row in ipairs(rows) do
    if row.layer == 'lowrank' and row.dtype == dtype and measured(row) then by_k[row.k] = row end
  end
  local pairs_seen, faster, smaller_error = 0, 0, 0
  for _, row in ipairs(rows) do
    if row.layer == 'sketched' and row.dtype == dtype and measured(row) and by_k[row.k] then
      pairs_seen = pairs_seen + 1
      if M.against(row, by_k[row.k]) == 'faster' then faster = faster + 1 end
      if row.rel_error < by_k[row.k].rel_error then smaller_error = smaller_error + 1 end
    end
  end
  return pairs_seen, faster, smaller_error
end

--- What was found, in sentences; every number in them is a count of rows.
---@param rows table of M.rows
---@param shape table n_in, n_out
---@return string
function M.verdict(rows, shape)
  if M.is_simulated(rows) then return SIMULATED .. ', so there is no verdict.' end
  local lines, of_forms = {}, {}
  for _, other in ipairs(OTHER_FORMS) do of_forms[#of_forms + 1] = form_sentence(rows, other) end
  rows = M.faster_forms(rows)
  local even = shape.n_in * shape.n_out / (shape.n_in + shape.n_out)
  for _, dtype in ipairs(types_of(rows)) do
    local dense = dense_of(rows, dtype)
    if dense then
      local n, faster, open, highest = count_faster(rows, 'sketched', dtype, dense)
      if n > 0 then
        local where = ''
        if faster > 0 then
          where = highest < even
            and (', all with k = 2*T*R below %.0f'):format(even)
            or (', up to k = 2*T*R = %d (%.0f is where it stores as much as dense)'):format(
              highest, even)
        end
        lines[#lines + 1] = ('%s: sketched beats dense at %d of %d points%s%s.'):format(dtype,
          faster, n, where, open > 0 and (' (%d undecided)'):format(open) or '')
      end
      local compared, won, better = rivals(rows, dtype)
      if compared > 0 then
        lines[#lines + 1] = ('%s: at equal bytes, sketched is faster than low-rank at %d of %d'
          .. ' points, and nearer to the dense weight at %d.'):format(dtype, won, compared, better)
      end
    end
  end
  local f32, bf16 = dense_of(rows, 'f32'), dense_of(rows, 'bf16')
  if f32 and bf16 then
    local n, faster = count_faster(rows, 'sketched', 'f32', bf16)
    lines[#lines + 1] = ('dense bf16 takes %.2f of the time of dense f32; %d of %d f32 sketches are'
      .. ' faster than it.'):format(bf16.fwd / f32.fwd, faster, n)
  end
  for _, line in ipairs(of_forms) do lines[#lines + 1] = line end
  if #lines == 0 then return 'no dense row to compare with: nothing is claimed.' end
  return table.concat(lines, '\n')
end

return M
